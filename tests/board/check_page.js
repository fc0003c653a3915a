// Runs in a page of the board after its own script (check_site.sh appends it there) and writes what it finds into
// <pre id="check">: one line per fault, and one that says what was looked at. It tries the controls, measures contrast,
// looks for texts that cover each other, and asks what a screen reader needs. Nothing of it is shipped.
"use strict";

(() => {
  const faults = [];
  const counts = {};
  const count = (what) => { counts[what] = (counts[what] || 0) + 1; };
  const expect = (condition, what, detail) => {
    count(what);
    if (!condition) faults.push(`FAULT ${what}: ${detail || ""}`.replace(/\s+/g, " ").slice(0, 240));
  };
  const label = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") || ""}"> ${(element.textContent || "").trim().slice(0, 60)}`;
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const isShown = (element) => element.checkVisibility({ checkOpacity: false, checkVisibilityCSS: true }) && !element.closest(".hidden-text, .skip");

  // ------------------------------------------------------------------------------------------ colours
  const parse = (text) => {
    const numbers = text.match(/[\d.]+/g);
    return numbers ? numbers.slice(0, 4).map(Number).concat([1]).slice(0, 4) : [0, 0, 0, 0];
  };
  const over = (top, bottom) => [0, 1, 2].map((i) => top[i] * top[3] + bottom[i] * (1 - top[3])).concat([1]);
  const backOf = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  // WCAG 2.2: relative luminance and contrast ratio.
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };

  const checkContrast = () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const seen = new Set();
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || seen.has(element) || !isShown(element)) continue;
      if (["SCRIPT", "TITLE", "OPTION"].includes(element.tagName) || element.closest("title, desc")) continue;
      seen.add(element);
      const style = getComputedStyle(element);
      const colour = element.ownerSVGElement ? style.fill : style.color;
      const size = parseFloat(style.fontSize);
      const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
      const back = backOf(element.ownerSVGElement ? element.ownerSVGElement.parentElement : element);
      const ratio = contrast(over(parse(colour), back), back);
      expect(ratio >= needed, "contrast of text", `${ratio.toFixed(2)} for ${label(element)}`);
    }
    for (const mark of all("svg path.line, svg circle, svg .rule, svg .fill")) {
      const style = getComputedStyle(mark);
      const colour = style.stroke === "none" ? style.fill : style.stroke;
      const back = backOf(mark.ownerSVGElement.parentElement);
      expect(contrast(over(parse(colour), back), back) >= 3, "contrast of marks", label(mark));
    }
  };

  // ------------------------------------------------------------------------------------------ places
  const checkPlaces = () => {
    const page = document.documentElement;
    expect(page.scrollWidth <= page.clientWidth, "no sideways scrolling of the page", `${page.scrollWidth} > ${page.clientWidth}`);
    for (const svg of all("svg.plot").filter(isShown)) {
      const frame = svg.getBoundingClientRect();
      const texts = all("text", svg).map((text) => ({ text, box: text.getBoundingClientRect() }));
      texts.forEach(({ text, box }, i) => {
        expect(box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1,
          "texts inside of their chart", label(text));
        for (const other of texts.slice(i + 1)) {
          const wide = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
          const high = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
          // The boxes have room above and below the letters; letters of two lines do not touch.
          expect(wide <= 1 || high <= box.height * 0.3, "texts of a chart apart", `${label(text)} and ${label(other.text)}`);
        }
      });
    }
    for (const control of all("button, input, select").filter(isShown)) {
      const box = control.getBoundingClientRect();
      // WCAG 2.2, 2.5.8: 24 by 24, or that much room; sort buttons stand in cells that are higher.
      expect(box.height >= 24 || control.classList.contains("sort"), "size of controls", label(control));
    }
  };

  // ------------------------------------------------------------------------------------------ structure
  const nameOf = (element) => {
    const by = element.getAttribute("aria-labelledby");
    if (by) return by.split(" ").map((id) => (document.getElementById(id) || { textContent: "" }).textContent).join(" ").trim();
    if (element.getAttribute("aria-label")) return element.getAttribute("aria-label");
    if (element.labels && element.labels.length) return element.labels[0].textContent.trim();
    return element.textContent.trim();
  };
  const unique = (values) => new Set(values).size === values.length;

  const checkStructure = () => {
    expect(document.documentElement.lang === "en", "language");
    expect(document.title.length > 10, "title", document.title);
    for (const tag of ["main", "h1", "footer"]) expect(all(tag).length === 1, `one ${tag}`);
    expect(all("body > header").length === 1, "one banner");
    const regions = all("nav, [role=region], section[aria-labelledby], form");
    regions.forEach((region) => expect(nameOf(region), "names of landmarks", label(region)));
    expect(unique(all("nav").map(nameOf)), "different names of navigations");
    expect(unique(all("[id]").map((element) => element.id)), "ids once");
    let level = 0;
    for (const heading of all("h1, h2, h3, h4")) {
      expect(Number(heading.tagName[1]) <= level + 1, "order of headings", label(heading));
      level = Number(heading.tagName[1]);
    }
    for (const control of all("a[href], button, input, select, summary")) expect(nameOf(control), "names of controls", label(control));
    for (const table of all("table")) {
      expect(table.caption && table.caption.textContent.trim(), "captions of tables");
      expect(all("th", table).every((th) => th.scope), "scope of header cells");
      expect(table.tHead, "head rows of tables");
    }
    for (const box of all(".scroll")) expect(box.tabIndex === 0 && nameOf(box), "scrolling boxes by keyboard", label(box));
    for (const svg of all("svg")) {
      if (svg.getAttribute("aria-hidden")) continue;
      expect(svg.getAttribute("role") === "img" && nameOf(svg).length > 20, "charts described in words", label(svg));
    }
    const skip = document.querySelector("a");
    expect(skip.className === "skip" && skip.hash === "#main", "skip link first");
    skip.focus();
    expect(skip.getBoundingClientRect().left >= 0, "skip link seen when focused");
    const link = document.querySelector("main a[href]");
    if (link) {
      link.focus();
      expect(getComputedStyle(link).outlineStyle !== "none", "focus seen", getComputedStyle(link).outlineStyle);
      link.blur();
    }
    expect(all("[style], style").length === 0, "no styles beside the style sheet");
    expect(all("script").length === 1, "one script");
    expect(all("img, iframe, object, embed, base").length === 0, "nothing embedded");
    for (const element of all("*"))
      for (const attribute of element.getAttributeNames()) expect(!attribute.startsWith("on"), "no handlers in attributes", attribute);
  };

  // ------------------------------------------------------------------------------------------ controls
  const live = () => document.getElementById("live").textContent;

  const checkSorting = () => {
    for (const table of all("table.sortable")) {
      const heads = Array.from(table.tHead.rows[0].cells);
      const before = table.tBodies[0].rows.length;
      heads.forEach((head, column) => {
        if (!head.dataset.sort) return;
        const button = head.querySelector("button");
        expect(button, "a button in every sortable head", label(head));
        for (let turn = 0; turn < 2; ++turn) {
          button.click();
          const direction = head.getAttribute("aria-sort");
          expect(direction === "ascending" || direction === "descending", "aria-sort", label(head));
          expect(heads.filter((h) => h.hasAttribute("aria-sort")).length === 1, "aria-sort once", label(head));
          expect(live().includes(direction), "sorting is said", live());
          const cells = Array.from(table.tBodies[0].rows).map((row) => row.cells[column]);
          const keys = cells.map((cell) => (cell.dataset.key !== undefined ? cell.dataset.key : cell.textContent.trim()));
          const known = keys.filter((key) => key !== "");
          expect(keys.slice(0, known.length).every((key) => key !== ""), "rows without a value at the end", label(head));
          const sign = direction === "ascending" ? 1 : -1;
          const ordered = known.every((key, i) => i === 0 || sign * (head.dataset.sort === "number"
            ? Number(known[i - 1]) - Number(key)
            : known[i - 1].localeCompare(key, "en", { numeric: true, sensitivity: "base" })) <= 0);
          expect(ordered, "sorted rows", `${label(head)} ${direction}`);
          if (head.dataset.sort === "number") expect(known.every((key) => !Number.isNaN(Number(key))), "keys are numbers", label(head));
        }
        expect(table.tBodies[0].rows.length === before, "no row lost by sorting");
      });
    }
  };

  const checkFilters = () => {
    for (const form of all("form.filters")) {
      expect(!form.hidden, "filters appear");
      const table = document.getElementById(form.dataset.table);
      const rows = Array.from(table.tBodies[0].rows);
      const shown = () => rows.filter((row) => !row.hidden);
      const set = (name, value) => {
        form.elements[name].value = value;
        form.elements[name].dispatchEvent(new Event("input", { bubbles: true }));
        form.elements[name].dispatchEvent(new Event("change", { bubbles: true }));
      };
      for (const select of all("select", form)) {
        for (const option of Array.from(select.options).slice(1)) {
          set(select.name, option.value);
          expect(shown().length > 0 || rows.length > 100, "every choice finds something", `${select.name} ${option.value}`);
          const key = select.dataset.is || select.dataset.has;
          const agrees = (row) => (select.dataset.is ? row.dataset[key] === option.value : row.dataset[key].split(" ").includes(option.value));
          expect(rows.every((row) => row.hidden !== agrees(row)), "chosen rows and no others", `${select.name} ${option.value}`);
          expect(form.querySelector(".shown").textContent.startsWith(`${shown().length} of ${rows.length}`), "number of rows is shown");
          if (select.name === "task")
            for (const head of all("th[data-task]", table)) expect(head.hidden === (head.dataset.task !== option.value), "columns of other tasks hidden");
        }
        set(select.name, "");
        expect(shown().length === rows.length, "all rows again");
      }
      if (form.elements.from) {
        const dates = rows.map((row) => row.dataset.date).sort();
        const middle = dates[Math.floor(dates.length / 2)];
        if (/^\d{4}-\d\d-\d\d$/.test(middle)) {
          set("from", middle);
          expect(rows.every((row) => row.hidden === (row.dataset.date < middle)), "rows from a day on", middle);
          set("to", middle);
          expect(rows.every((row) => row.hidden === (row.dataset.date !== middle)), "rows of one day", middle);
        }
      }
      form.reset();
    }
  };

  const checkSearch = () => {
    for (const form of all("form.filters")) {
      const rows = Array.from(document.getElementById(form.dataset.table).tBodies[0].rows);
      expect(rows.every((row) => !row.hidden), "reset shows all rows");
      const words = rows[0].cells[0].textContent.trim().split(/\s+/)[0];
      form.elements.text.value = words.toUpperCase();
      form.elements.text.dispatchEvent(new Event("input", { bubbles: true }));
      expect(!rows[0].hidden, "search finds what is there", words);
      expect(rows.every((row) => row.hidden !== row.textContent.toLowerCase().includes(words.toLowerCase())), "search finds nothing else", words);
      form.elements.text.value = "no such text anywhere";
      form.elements.text.dispatchEvent(new Event("input", { bubbles: true }));
      expect(rows.every((row) => row.hidden), "search for nothing");
      form.reset();
    }
  };

  const finish = () => {
    const pre = document.createElement("pre");
    pre.id = "check";
    const total = Object.values(counts).reduce((a, b) => a + b, 0);
    pre.textContent = faults.concat([`DONE ${total} checks of ${Object.keys(counts).length} kinds, ${faults.length} faults`]).join("\n");
    document.body.append(pre);
  };

  const runAxe = async () => {
    if (typeof axe === "undefined") return;
    const result = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    count("axe-core");
    for (const violation of result.violations)
      for (const node of violation.nodes.slice(0, 3)) faults.push(`FAULT axe ${violation.id}: ${node.html.slice(0, 160)}`.replace(/\s+/g, " "));
  };

  addEventListener("load", () => {
    try {
      checkStructure();
      checkContrast();
      checkPlaces();
      checkSorting();
      checkFilters();
    } catch (error) { faults.push(`FAULT the check itself: ${error.stack}`); }
    // A form's reset is done after this task; the search starts from its outcome.
    setTimeout(async () => {
      try {
        checkSearch();
        await runAxe();
      } catch (error) { faults.push(`FAULT the check itself: ${error.stack}`); }
      finish();
    }, 50);
  });
})();
