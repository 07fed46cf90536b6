// A table that renders only the rows in view, so that ten thousand rows scroll as ten do.

import { copy, element } from "./elements.js";

const ROW_HEIGHT = 28;
const BEYOND = 8; // rows rendered above and below the view
const printing = matchMedia("print");

export class Grid {
  constructor({ label, columns, open, sort, now }) {
    this.columns = columns;
    this.open = open;
    this.now = now;
    this.sort = sort ?? null;
    this.rows = [];
    this.shown = [];
    this.rendered = new Map();
    this.active = 0;
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
    this.resized = new ResizeObserver(() => this.render());
    this.resized.observe(this.grid);
    this.printed = () => this.render();
    printing.addEventListener("change", this.printed);
  }

  dispose() {
    this.resized.disconnect();
    printing.removeEventListener("change", this.printed);
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
    else this.sort = { title: column.title, order: again ? "descending" : "ascending", compare: column.key };
    this.heading();
    this.head.querySelectorAll("button")[this.columns.list.filter((each) => each.key).indexOf(column)]?.focus();
    this.setRows(this.rows, this.empty.textContent);
  }

  setRows(rows, emptyText) {
    this.rows = rows;
    const factor = this.sort?.order === "descending" ? -1 : 1;
    this.shown = this.sort ? [...rows].sort((one, other) => factor * this.sort.compare(one, other)) : rows;
    this.active = Math.min(this.active, Math.max(this.shown.length - 1, 0));
    this.grid.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.grid.hidden = this.shown.length === 0;
    this.empty.hidden = this.shown.length !== 0;
    this.empty.textContent = emptyText;
    this.render();
  }

  refresh() {
    const now = this.now();
    for (const { row, cells } of this.rendered.values()) {
      this.columns.list.forEach((column, number) => column.ticks && column.fill(cells[number], row, now));
    }
  }

  redraw() {
    this.heading();
    this.rendered.clear();
    this.body.replaceChildren();
    this.render();
  }

  wanted() {
    if (printing.matches) return this.shown.map((_, index) => index);
    const first = Math.max(0, Math.floor(this.grid.scrollTop / ROW_HEIGHT) - BEYOND);
    const last = Math.min(this.shown.length, Math.ceil((this.grid.scrollTop + this.grid.clientHeight) / ROW_HEIGHT) + BEYOND);
    const indexes = [];
    for (let index = first; index < last; index += 1) indexes.push(index);
    const held = this.active < this.shown.length && (indexes.length === 0 || this.body.contains(document.activeElement));
    if (held && (this.active < first || this.active >= last)) indexes.push(this.active);
    return indexes;
  }

  render() {
    this.body.style.height = printing.matches ? "auto" : `${this.shown.length * ROW_HEIGHT}px`;
    this.grid.classList.toggle("whole", printing.matches);
    const kept = new Map();
    const now = this.now();
    for (const index of this.wanted()) {
      const old = this.rendered.get(index);
      kept.set(index, old?.row === this.shown[index] ? old : this.make(index, now));
    }
    const focused = [...this.rendered].find(([, each]) => each.element === document.activeElement)?.[0];
    for (const [index, each] of this.rendered) if (kept.get(index) !== each) each.element.remove();
    for (const [index, each] of kept) {
      if (!each.element.isConnected) this.body.append(each.element);
      each.element.style.transform = printing.matches ? "none" : `translateY(${index * ROW_HEIGHT}px)`;
      each.element.tabIndex = index === this.active ? 0 : -1;
    }
    this.rendered = kept;
    if (focused !== undefined && kept.has(focused)) kept.get(focused).element.focus({ preventScroll: true });
    if (!kept.has(this.active) && kept.size) kept.values().next().value.element.tabIndex = 0;
  }

  make(index, now) {
    const row = this.shown[index];
    const cells = this.columns.list.map((column) => {
      const cell = element("div", { role: "gridcell", class: `cell ${column.class}` });
      column.fill(cell, row, now);
      return cell;
    });
    const made = element("div", { role: "row", class: "grid-row", "aria-rowindex": String(index + 2) }, ...cells);
    made.dataset.index = String(index);
    return { row, cells, element: made };
  }

  click(event) {
    const line = event.target.closest("[role=row]");
    if (!line || event.target.closest("a, button")) return;
    this.move(Number(line.dataset.index));
    if (!String(getSelection())) this.open?.(this.shown[this.active]);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.move(this.active + steps[event.key]);
    else if (event.key === "Enter" && event.target.matches("[role=row]")) this.open?.(this.shown[this.active]);
    else if (event.key === "c" && this.shown[this.active]?.command) copy(this.shown[this.active].command);
    else return;
    event.preventDefault();
  }

  move(index) {
    this.active = Math.min(Math.max(index, 0), this.shown.length - 1);
    const top = this.active * ROW_HEIGHT;
    const height = this.grid.clientHeight - ROW_HEIGHT;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + ROW_HEIGHT > this.grid.scrollTop + height) this.grid.scrollTop = top + ROW_HEIGHT - height;
    this.render();
    if (!this.rendered.has(this.active)) {
      const line = this.make(this.active, this.now());
      this.rendered.set(this.active, line);
      line.element.style.transform = `translateY(${top}px)`;
      this.body.append(line.element);
    }
    this.rendered.get(this.active).element.tabIndex = 0;
    this.rendered.get(this.active).element.focus({ preventScroll: true });
  }
}
