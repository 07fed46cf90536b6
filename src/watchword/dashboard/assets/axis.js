// One time axis for all credentials: issued, renewal, expiry and now.

import { element, setText, setTitle } from "./elements.js";
import { instant } from "./format.js";

const HOUR = 3600;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;
const ROUND = [1 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY, 90 * DAY, YEAR, 3 * YEAR, 10 * YEAR, 30 * YEAR];
const PAST = 22; // percent of the axis, for what was
const [FEW, MOST] = [0.1, 0.9]; // of the credentials: what ends later than most runs off the axis
const APART = 15; // percent between two labels: more than the widest label on the narrowest axis

const least = (seconds) => ROUND.find((each) => each >= seconds) ?? ROUND.at(-1);

// Nearly linear up to `unit`, the lifetime of short-lived credentials, and logarithmic beyond: hours and years are visible at once.
export class Axis {
  constructor() {
    [this.unit, this.before, this.after] = [DAY, DAY, DAY];
  }

  // Takes the scale that fits these rows; returns whether it is another one.
  fit(rows, now) {
    const known = this.key();
    const ends = rows.filter((row) => row.expires !== null);
    const sorted = (read) => Float64Array.from(ends, read).sort();
    const most = (read) => least(sorted(read)[Math.round((ends.length - 1) * MOST)] ?? DAY);
    const short = sorted((row) => row.expires - (row.issued ?? now))[Math.floor((ends.length - 1) * FEW)];
    this.unit = ROUND.findLast((each) => each <= short) ?? HOUR;
    this.after = most((row) => row.expires - now);
    this.before = Math.min(most((row) => now - (row.issued ?? now)), this.after);
    return this.key() !== known;
  }

  key() {
    return [this.unit, this.before, this.after].join();
  }

  // Where an instant stands, in percent; what lies outside stands at the edge.
  place(seconds, now) {
    const away = seconds - now;
    const whole = away < 0 ? this.before : this.after;
    const part = Math.min(1, Math.log1p(Math.abs(away) / this.unit) / Math.log1p(whole / this.unit));
    return away < 0 ? PAST * (1 - part) : PAST + (100 - PAST) * part;
  }

  holds(seconds, now) {
    return seconds >= now - this.before && seconds <= now + this.after;
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
    marks.life.className = `life health-line-${row.health}${row.expires === null ? " open" : this.holds(row.expires, now) ? "" : " beyond"}`;
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
    const marks = this.labels().map(([at, text]) => {
      const mark = element("i", { class: at === PAST ? "tick now-tick" : "tick" }, text);
      mark.style.left = `${at}%`;
      return mark;
    });
    const told = element("span", { class: "hidden" }, `Time from ${label(-this.before)} to ${label(this.after)}`);
    cell.replaceChildren(element("span", { class: "track", "aria-hidden": "true" }, ...marks), told);
  }

  // Labels with their places: as many round times as stand apart from each other and from the end.
  labels() {
    const found = [[0, label(-this.before)], [PAST, "now"]];
    for (const after of ROUND.filter((each) => each < this.after)) {
      const at = this.place(after, 0);
      if (at - found.at(-1)[0] >= APART && at <= 100 - APART) found.push([at, label(after)]);
    }
    return found;
  }
}

function label(seconds) {
  const size = Math.abs(seconds);
  const [unit, name] = size < DAY ? [HOUR, "h"] : size < YEAR ? [DAY, "d"] : [YEAR, "y"];
  return `${seconds < 0 ? "−" : "+"}${size / unit}${name}`;
}
