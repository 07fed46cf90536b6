// One time axis for all credentials: issued, renewal, expiry and now.

import { element, setText, setTitle } from "./elements.js";
import { instant } from "./format.js";

const HOUR = 3600;
const DAY = 24 * HOUR;

export const SPANS = [
  { title: "12 hours", before: 3 * HOUR, after: 9 * HOUR, step: 3 * HOUR },
  { title: "2 days", before: 12 * HOUR, after: 36 * HOUR, step: 12 * HOUR },
  { title: "9 days", before: 2 * DAY, after: 7 * DAY, step: DAY },
  { title: "4 months", before: 30 * DAY, after: 90 * DAY, step: 30 * DAY },
  { title: "2 years", before: 182 * DAY, after: 548 * DAY, step: 182 * DAY },
  { title: "12 years", before: 730 * DAY, after: 3650 * DAY, step: 730 * DAY },
];
const MOST = 0.8; // of the credentials end within the span that is chosen for them

// The shortest span that shows where most credentials end.
export function chooseSpan(rows, now) {
  const left = rows.filter((row) => row.expires !== null).map((row) => row.expires - now).sort((one, other) => one - other);
  const most = left[Math.floor(left.length * MOST)] ?? 0;
  const found = SPANS.findIndex((span) => span.after >= most);
  return found < 0 ? SPANS.length - 1 : found;
}

export class Axis {
  constructor(number) {
    this.span = SPANS[number] ?? SPANS[0];
  }

  // Takes the span that fits these rows; says whether it is another one.
  fit(rows, now) {
    const before = this.span;
    this.span = SPANS[chooseSpan(rows, now)];
    return this.span !== before;
  }

  // Where an instant stands, in percent; what lies outside stands at the edge.
  place(seconds, now) {
    const { before, after } = this.span;
    return Math.min(100, Math.max(0, ((seconds - now + before) / (before + after)) * 100));
  }

  holds(seconds, now) {
    return seconds >= now - this.span.before && seconds <= now + this.span.after;
  }

  column() {
    return {
      title: "Time",
      class: "axis",
      ticks: true,
      fill: (cell, row, now) => this.draw(cell, row, now),
      decorate: (cell) => this.scale(cell),
    };
  }

  draw(cell, row, now) {
    const told = `issued ${instant(row.issued)}, renewal ${instant(row.renewal)}, expires ${instant(row.expires)}`;
    const { marks, text } = (cell.axis ??= this.marks(cell));
    const from = this.place(row.issued ?? now, now);
    const to = row.expires === null ? 100 : this.place(row.expires, now);
    marks.life.className = `life health-line-${row.health}${row.expires === null ? " open" : ""}`;
    marks.life.style.left = `${from}%`;
    marks.life.style.width = `${Math.max(to - from, 0.4)}%`;
    marks.now.style.left = `${this.place(now, now)}%`;
    for (const [name, at] of [["issued", row.issued], ["renewal", row.renewal], ["expiry", row.expires]]) {
      marks[name].hidden = at === null || !this.holds(at, now);
      if (!marks[name].hidden) marks[name].style.left = `${this.place(at, now)}%`;
    }
    setText(text, told);
    setTitle(cell, told);
  }

  // The marks of one cell, made once.
  marks(cell) {
    const marks = Object.fromEntries(["life", "now", "issued", "renewal", "expiry"].map((name) => [name, element("i", { class: name })]));
    const text = element("span", { class: "hidden" });
    cell.replaceChildren(element("span", { class: "track", "aria-hidden": "true" }, ...Object.values(marks)), text);
    return { marks, text };
  }

  scale(cell) {
    const { before, after, step, title } = this.span;
    const marks = [];
    for (let at = -Math.floor(before / step) * step; at < after; at += step) {
      const mark = element("i", { class: at === 0 ? "tick now-tick" : "tick" });
      setText(mark, at === 0 ? "now" : label(at));
      mark.style.left = `${((at + before) / (before + after)) * 100}%`;
      marks.push(mark);
    }
    const told = element("span", { class: "hidden" }, `Time axis over ${title}`);
    cell.replaceChildren(element("span", { class: "track", "aria-hidden": "true" }, ...marks), told);
  }
}

function label(seconds) {
  const size = Math.abs(seconds);
  const sign = seconds < 0 ? "−" : "+";
  if (size < DAY) return `${sign}${size / HOUR}h`;
  if (size < 365 * DAY) return `${sign}${Math.round(size / DAY)}d`;
  return `${sign}${Math.round((size / DAY / 365) * 10) / 10}y`;
}
