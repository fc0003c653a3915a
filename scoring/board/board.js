// What a page cannot do without a script: sort a table, filter its rows, copy a command. Everything can be read without
// it; controls that need it appear only when it runs. No data is built into markup here: rows are moved and hidden, and
// text is set as text.
"use strict";

(() => {
  const say = (text) => { document.getElementById("live").textContent = text; };

  // ------------------------------------------------------------------------------------------ sorting
  /** Numbers come from data-key, which is empty where there is none; everything else is compared as people read it. */
  const keyOf = (row, column, numeric) => {
    const cell = row.cells[column];
    if (!cell) return numeric ? NaN : "";
    const key = cell.dataset.key !== undefined ? cell.dataset.key : cell.textContent.trim();
    return numeric ? (key === "" ? NaN : Number(key)) : key;
  };

  const compare = (a, b, numeric) => {
    if (!numeric) return a.localeCompare(b, "en", { numeric: true, sensitivity: "base" });
    return a - b;
  };

  /** Rows without a value stay at the end in both directions; equal rows keep their order. */
  const sortBy = (table, head, column) => {
    const numeric = head.dataset.sort === "number";
    const first = head.dataset.first || "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const direction = head.getAttribute("aria-sort") === first ? other : first;
    const sign = direction === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = Array.from(body.rows).map((row, index) => ({ row, index, key: keyOf(row, column, numeric) }));
    const isMissing = (key) => (numeric ? Number.isNaN(key) : key === "");
    rows.sort((a, b) => {
      if (isMissing(a.key) || isMissing(b.key)) return isMissing(a.key) - isMissing(b.key) || a.index - b.index;
      return sign * compare(a.key, b.key, numeric) || a.index - b.index;
    });
    body.append(...rows.map((entry) => entry.row));
    for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
    say(`Sorted by ${head.textContent.trim()}, ${direction}.`);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      if (!head.dataset.sort) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sortBy(table, head, column));
      head.append(button);
    });
  }

  // ------------------------------------------------------------------------------------------ filters
  /** A row is shown when every control agrees: data-is (equal), data-has (one of words), data-in (part of the text),
      data-from and data-to (dates). */
  const agrees = (row, control) => {
    const wanted = control.value.trim();
    if (wanted === "") return true;
    const data = row.dataset;
    if (control.dataset.is) return data[control.dataset.is] === control.value;
    if (control.dataset.has) return data[control.dataset.has].split(" ").includes(wanted);
    if (control.dataset.from) return data[control.dataset.from] >= wanted;
    if (control.dataset.to) return data[control.dataset.to] <= wanted;
    const text = row.textContent.toLowerCase();
    return wanted.toLowerCase().split(/\s+/).every((word) => text.includes(word));
  };

  for (const form of document.querySelectorAll("form.filters")) {
    const table = document.getElementById(form.dataset.table);
    const rows = Array.from(table.tBodies[0].rows);
    const controls = Array.from(form.elements).filter((element) => element.name);
    const shown = form.querySelector(".shown");
    const columns = Array.from(table.tHead.rows[0].cells);
    const apply = () => {
      let count = 0;
      for (const row of rows) {
        row.hidden = !controls.every((control) => agrees(row, control));
        if (!row.hidden) ++count;
      }
      const task = form.elements.task ? form.elements.task.value : "";
      columns.forEach((head, column) => {
        if (!head.dataset.task) return;
        const hide = task !== "" && head.dataset.task !== task;
        head.hidden = hide;
        for (const row of rows) if (row.cells[column]) row.cells[column].hidden = hide;
      });
      shown.textContent = `${count} of ${rows.length} rows shown`;
    };
    form.addEventListener("input", apply);
    form.addEventListener("change", () => { apply(); say(shown.textContent); });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => { apply(); say(shown.textContent); }, 0));
    form.hidden = false;
    apply();
  }

  // ------------------------------------------------------------------------------------------ copying
  for (const command of document.querySelectorAll(".command")) {
    if (!navigator.clipboard) break;
    const code = command.querySelector("code");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the command");
    button.addEventListener("click", () => {
      navigator.clipboard.writeText(code.textContent).then(
        () => { button.textContent = "Copied"; say("Copied."); },
        () => { getSelection().selectAllChildren(code); say("Selected; copy it with the keyboard."); });
    });
    command.append(button);
  }
})();
