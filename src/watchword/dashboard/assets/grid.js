// A table that renders only the rows in view, so that ten thousand rows scroll as ten do.

import { copy, element, setText } from "./elements.js";

const BEYOND = 8; // rows rendered above and below the view
const printing = matchMedia("print");
const narrow = matchMedia("(max-width: 760px)"); // rows are cards there
const rowHeight = () => (narrow.matches ? 84 : 28); // as --row of the style sheet

export class Grid {
  constructor({ label, columns, open, sort, now }) {
    this.columns = columns;
    this.open = open;
    this.now = now;
    this.sort = sort ?? null;
    this.rows = [];
    this.shown = [];
    this.rendered = new Map(); // by the id of the row
    this.at = 0; // where the active row is
    this.active = null; // its id, once it had the focus
    this.keys = new WeakMap(); // by which rows are sorted
    this.head = element("div", { role: "row", class: "grid-row grid-head", "aria-rowindex": "1" });
    this.body = element("div", { role: "rowgroup", class: "grid-body" });
    this.grid = element(
      "div",
      { role: "grid", class: `grid ${columns.name}`, "aria-label": label, "aria-describedby": "grid-keys" },
      element("div", { role: "rowgroup", class: "grid-heading" }, this.head),
      this.body,
    );
    this.empty = element("p", { class: "quiet", hidden: true });
    this.element = element("div", { class: "grid-frame" }, this.grid, this.empty);
    this.heading();
    this.grid.addEventListener("scroll", () => this.render(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.press(event));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("focusin", (event) => this.activate(event));
    this.resized = new ResizeObserver(() => this.render());
    this.resized.observe(this.grid);
    this.printed = () => {
      this.resize();
      this.render();
    };
    [printing, narrow].forEach((each) => each.addEventListener("change", this.printed));
  }

  dispose() {
    this.resized.disconnect();
    [printing, narrow].forEach((each) => each.removeEventListener("change", this.printed));
  }

  heading() {
    this.head.replaceChildren(...this.columns.list.map((column) => {
      const sorted = this.sort?.title === column.title ? this.sort.order : "none";
      const title = column.key
        ? element("button", { type: "button", onclick: () => this.sortBy(column) }, column.title)
        : element("span", {}, column.title);
      const cell = element("div", { role: "columnheader", class: `cell ${column.class}` }, title);
      if (column.key) cell.setAttribute("aria-sort", sorted);
      column.decorate?.(cell);
      return cell;
    }));
  }

  sortBy(column) {
    const again = this.sort?.title === column.title;
    if (again && this.sort.order === "descending") this.sort = null;
    else this.sort = { title: column.title, order: again ? "descending" : "ascending", key: column.key };
    this.keys = new WeakMap();
    this.heading();
    this.head.querySelectorAll("button")[this.columns.list.filter((each) => each.key).indexOf(column)]?.focus();
    this.toTop();
    this.setRows(this.rows, this.empty.textContent);
  }

  toTop() {
    this.grid.scrollTop = 0;
  }

  // Shows these rows; the row at the upper edge and the active row stay where they are.
  setRows(rows, emptyText) {
    const top = Math.floor(this.grid.scrollTop / rowHeight());
    const anchor = top > 0 ? this.shown[top] : undefined;
    this.rows = rows;
    this.shown = this.sort ? this.sorted(rows) : rows;
    const found = this.active === null ? -1 : this.find(this.active);
    this.at = found >= 0 ? found : Math.min(this.at, Math.max(this.shown.length - 1, 0));
    this.grid.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.grid.hidden = this.shown.length === 0;
    this.empty.hidden = this.shown.length !== 0;
    setText(this.empty, emptyText);
    for (const field of ["note", "command"]) this.grid.classList.toggle(`with-${field}`, rows.some((row) => row[field]));
    this.resize();
    const moved = anchor === undefined || this.shown[top]?.id === anchor.id ? -1 : this.find(anchor.id);
    if (moved >= 0) this.grid.scrollTop += (moved - top) * rowHeight();
    this.render();
  }

  find(id) {
    return this.shown.findIndex((row) => row.id === id);
  }

  sorted(rows) {
    const factor = this.sort.order === "descending" ? -1 : 1;
    const key = (row) => {
      if (!this.keys.has(row)) this.keys.set(row, this.sort.key(row));
      return this.keys.get(row);
    };
    return rows
      .map((row) => [key(row), row])
      .sort(([one], [other]) => (one < other ? -factor : one > other ? factor : 0))
      .map(([, row]) => row);
  }

  redraw() {
    const now = this.now();
    this.heading();
    for (const line of this.rendered.values()) this.fill(line, line.row, now);
  }

  refresh() {
    const now = this.now();
    for (const { row, cells } of this.rendered.values()) {
      this.columns.list.forEach((column, number) => column.ticks && column.fill(cells[number], row, now));
    }
  }

  resize() {
    this.body.style.height = printing.matches ? "auto" : `${this.shown.length * rowHeight()}px`;
    this.grid.classList.toggle("whole", printing.matches);
  }

  wanted() {
    if (printing.matches) return this.shown.map((_, index) => index);
    const { scrollTop, clientHeight } = this.grid;
    const first = Math.max(0, Math.floor(scrollTop / rowHeight()) - BEYOND);
    const last = Math.min(this.shown.length, Math.ceil((scrollTop + clientHeight) / rowHeight()) + BEYOND);
    const indexes = [];
    for (let index = first; index < last; index += 1) indexes.push(index);
    if (this.at >= this.shown.length || !this.body.contains(document.activeElement)) return indexes;
    if (this.at < first) indexes.unshift(this.at);
    if (this.at >= last) indexes.push(this.at);
    return indexes;
  }

  // A row keeps its element while it is in view, wherever it moves and whatever changes in it. The elements of rows
  // that leave the view serve those that enter it.
  render() {
    const now = this.now();
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const wanted = this.wanted();
    const ids = new Set(wanted.map((index) => this.shown[index].id));
    const left = [...this.rendered.values()].filter((line) => !ids.has(line.row.id));
    for (const line of left) line.element.remove();
    const spare = left.filter((line) => !line.element.contains(focused));
    const kept = new Map();
    for (const index of wanted) {
      const row = this.shown[index];
      const line = this.rendered.get(row.id) ?? spare.pop() ?? this.make();
      if (line.row !== row) this.fill(line, row, now);
      this.place(line, index);
      kept.set(row.id, line);
    }
    this.rendered = kept;
    this.arrange(kept);
    if (focused && focused !== document.activeElement) this.focusAgain(focused);
    if (kept.size && !kept.has(this.shown[this.at]?.id)) kept.values().next().value.element.tabIndex = 0;
  }

  // Brings the elements into the order of their rows, for screen readers and for print.
  arrange(lines) {
    let next = this.body.firstElementChild;
    for (const { element: made } of lines.values()) {
      if (made === next) next = next.nextElementSibling;
      else this.body.insertBefore(made, next);
    }
  }

  make() {
    const cells = this.columns.list.map((column) => element("div", { role: "gridcell", class: `cell ${column.class}`, "data-title": column.title }));
    return { row: null, index: -1, where: "", cells, element: element("div", { role: "row", class: "grid-row" }, ...cells) };
  }

  fill(line, row, now) {
    line.row = row;
    this.columns.list.forEach((column, number) => column.fill(line.cells[number], row, now));
  }

  place(line, index) {
    const { element: made } = line;
    made.tabIndex = index === this.at ? 0 : -1;
    const where = printing.matches ? "none" : `translateY(${index * rowHeight()}px)`;
    if (line.where !== where) made.style.transform = line.where = where;
    if (line.index === index) return;
    line.index = index;
    made.dataset.index = String(index);
    made.setAttribute("aria-rowindex", String(index + 2));
  }

  // An element that was moved, and one whose row is gone, has lost the focus: the active row gets it.
  focusAgain(focused) {
    const line = this.rendered.get(this.shown[this.at]?.id);
    if (focused.isConnected) focused.focus({ preventScroll: true });
    else line?.element.focus({ preventScroll: true });
  }

  activate(event) {
    const line = event.target.closest("[role=row]");
    this.at = Number(line.dataset.index);
    this.active = this.shown[this.at]?.id ?? null;
  }

  click(event) {
    const line = event.target.closest("[role=row]");
    if (!line || event.target.closest("a, button")) return;
    this.move(Number(line.dataset.index));
    if (!String(getSelection())) this.open?.(this.shown[this.at]);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / rowHeight()) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.move(this.at + steps[event.key]);
    else if (event.key === "Enter" && event.target.matches("[role=row]")) this.open?.(this.shown[this.at]);
    else if (event.key === "c" && this.shown[this.at]?.command) copy(this.shown[this.at].command);
    else return;
    event.preventDefault();
  }

  move(index) {
    this.at = Math.min(Math.max(index, 0), this.shown.length - 1);
    this.active = this.shown[this.at].id;
    const top = this.at * rowHeight();
    const height = this.grid.clientHeight - rowHeight();
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + rowHeight() > this.grid.scrollTop + height) this.grid.scrollTop = top + rowHeight() - height;
    this.render();
    this.rendered.get(this.active)?.element.focus({ preventScroll: true });
  }
}
