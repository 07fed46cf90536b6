// The first page: problems, the coming seven days, and what happened last.

import { element, plainTable, section, setText } from "./elements.js";
import { endingColumns, problemColumns } from "./columns.js";
import { clock } from "./format.js";
import { Grid } from "./grid.js";
import { clusterOf } from "./store.js";

const DAY = 86400;
const DAYS = 7;

export function overview(store) {
  const now = () => store.now();
  const open = (row) => {
    if (clusterOf(row)) location.hash = `#/clusters/${encodeURIComponent(clusterOf(row))}`;
    else location.hash = `#/credentials?q=${encodeURIComponent(row.subject ?? row.name)}`;
  };
  const totals = element("ul", { class: "totals", "aria-label": "Totals" });
  const problems = new Grid({ label: "Needs attention", columns: problemColumns(store), open, now });
  const ending = new Grid({ label: "Ends within seven days", columns: endingColumns(store), open, now });
  const heading = element("h2", { id: "section-problems" }, "Needs attention");
  const days = element("div", { class: "days" });
  const events = element("div", {});
  const page = element(
    "div",
    { class: "page" },
    element("h1", { tabindex: "-1" }, "Overview"),
    totals,
    element("section", { "aria-labelledby": "section-problems" }, heading, problems.element),
    section("Coming seven days", days, ending.element),
    section("Recent events", events),
  );
  let shownEvents = null;
  const update = () => {
    showTotals(totals, store);
    setText(heading, `Needs attention (${store.problems().length.toLocaleString("en")})`);
    problems.setRows(store.problems(), "Nothing needs attention.");
    const soon = store.table("ending");
    days.replaceChildren(dayTable(store, soon));
    ending.setRows(soon, "No credential ends within seven days.");
    if (shownEvents !== store.events) events.replaceChildren(eventTable(store.events, "No events yet."));
    shownEvents = store.events;
  };
  const tick = () => [problems, ending].forEach((grid) => grid.refresh());
  return { page, update, tick, dispose: () => [problems, ending].forEach((grid) => grid.dispose()) };
}

function showTotals(list, store) {
  const entry = (number, noun, href) =>
    element("li", {}, element("a", { href }, element("b", {}, number.toLocaleString("en")), ` ${noun}`));
  const kinds = new Map();
  for (const row of store.table("credential")) kinds.set(row.kind, (kinds.get(row.kind) ?? 0) + 1);
  list.replaceChildren(
    entry(store.table("cluster").length, "clusters", "#/clusters"),
    entry(store.table("add-on").length, "add-ons", "#/add-ons"),
    entry(store.table("credential").length, "credentials", "#/credentials"),
    ...[...kinds].sort().map(([kind, number]) => entry(number, kind, `#/credentials?kind=${encodeURIComponent(kind)}`)),
  );
}

function dayTable(store, soon) {
  const now = store.now();
  const renewals = Array(DAYS).fill(0);
  const ends = Array(DAYS).fill(0);
  for (const row of store.table("credential")) {
    const day = row.renewal === null ? -1 : Math.floor((row.renewal - now) / DAY);
    if (day >= 0 && day < DAYS) renewals[day] += 1;
  }
  for (const row of soon) {
    const day = Math.max(0, Math.floor((row.expires - now) / DAY));
    if (!row.renewalAnnounced && row.kind !== "join token" && day < DAYS) ends[day] += 1;
  }
  const titles = ["Day", ...renewals.map((_, day) => dayTitle(now + day * DAY, day))];
  const line = (title, numbers, name) => [
    title,
    ...numbers.map((number) => element("span", { class: number ? name : "quiet" }, number.toLocaleString("en"))),
  ];
  return plainTable("Renewals and ends by day", titles, [
    line("renewals announced", renewals, ""),
    line("end without announced renewal", ends, "bad"),
  ]);
}

function dayTitle(seconds, day) {
  const date = new Date(seconds * 1000);
  return day === 0 ? "next 24 h" : date.toLocaleDateString("en", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
}

export function eventTable(events, empty) {
  if (!events.length) return element("p", { class: "quiet" }, empty);
  const rows = events.map((event) => [
    element("time", { class: "number" }, clock(event.at)),
    element("span", { class: event.warning ? "warning" : "" }, event.warning ? "Warning" : "Normal"),
    event.about,
    event.what,
  ]);
  return plainTable("List of events", ["Time", "Type", "About", "What"], rows);
}

