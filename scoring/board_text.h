// Text that others wrote -> text that does no harm where the board puts it: HTML and SVG, CSV, Markdown, file names.
// Every function takes any bytes at all; none of them knows what the text is about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepbench {

/// Code points of UTF-8 text; every byte that is no part of one becomes U+FFFD.
std::vector<char32_t> code_points(std::string_view text);

/// The same as text: UTF-8 throughout.
std::string valid_utf8(std::string_view text);

/// For an element or a quoted attribute of HTML or SVG. Characters that are not seen but act (control characters,
/// overrides of the writing direction, blank ones that make two names look alike) become a mark that is: "[U+202E]".
/// Line feeds and tabs stay, and so do the joiners and direction marks that Persian, Hebrew or emoji need.
std::string html_text(std::string_view text);

/// What html_text shows: the same marks, nothing escaped.
std::string visible_text(std::string_view text);

/// One line of source for an element: as html_text, with marks for the joiners and direction marks as well, and each
/// mark in <b class="mark" title="...">.
std::string html_source(std::string_view line);

/// One field of a CSV line (RFC 4180), quoted where needed. Text that a spreadsheet would take for a formula gets an
/// apostrophe in front. Invisible characters are marked as in html_text, so that a cell shows what it holds.
std::string csv_field(std::string_view text);

/// One cell of a Markdown table (GitHub's dialect): one line, no markup, no HTML.
std::string markdown_cell(std::string_view text);

/// At most `limit` characters (1 at least) in one line; what was cut off is shown as "…".
std::string shortened(std::string_view text, size_t limit);

/// A file name, the same for the same text and different for different ones: the text itself when it is made of
/// lower-case letters, digits, "_" and "-", else "x-" and a hash of it.
std::string page_name(std::string_view text);

}  // namespace stepbench
