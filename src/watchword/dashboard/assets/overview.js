// The first page: the health of each kind, problems, the coming seven days, and what happened last.

import { element, plainTable, section, setText, withShortIds } from "./elements.js";
import { endingColumns, problemColumns } from "./columns.js";
import { clock } from "./format.js";
import { Grid } from "./grid.js";
import { clusterOf } from "./store.js";

const DAY = 86400;
const DAYS = 7;
const PAGES = { "account token": "#/accounts?", "pull secret": "#/pull-secrets?" };

export function overview(store) {
  const now = () => store.now();
  const open = (row) => {
    if (clusterOf(row)) location.hash = `#/clusters/${encodeURIComponent(clusterOf(row))}`;
    else location.hash = `#/credentials?q=${encodeURIComponent(row.subject ?? row.name)}`;
  };
  const problems = new Grid({ label: "Needs attention", columns: problemColumns(store), open, now });
  const ending = new Grid({ label: "Ends within seven days", columns: endingColumns(store), open, now });
  const heading = element("h2", { id: "section-problems" }, "Needs attention");
  const [health, days, events] = [element("div", {}), element("div", {}), element("div", {})];
  const attention = element("section", { class: "attention", "aria-labelledby": "section-problems" }, heading, problems.element);
  const page = element(
    "div",
    { class: "page" },
    element("h1", { tabindex: "-1" }, "Overview"),
    element("div", { class: "picture" }, section("Health", health), attention, section("Coming seven days", days)),
    section("Ends within seven days", ending.element),
    section("Recent events", events),
  );
  const shown = new Map(); // an unchanged picture keeps its elements, and the focus
  const show = (place, state, make) => {
    const key = JSON.stringify(state);
    if (shown.get(place) !== key) place.replaceChildren(make(state));
    shown.set(place, key);
  };
  let shownEvents = null;
  const update = () => {
    show(health, countHealths(store), (kinds) => healthBars(store, kinds));
    setText(heading, `Needs attention (${store.problems().length.toLocaleString("en")})`);
    problems.setRows(store.problems(), "Nothing needs attention.");
    show(days, countDays(store), dayChart);
    ending.setRows(store.table("ending"), "No credential ends within seven days.");
    if (shownEvents !== store.events) events.replaceChildren(eventTable(store.events, "No events yet."));
    shownEvents = store.events;
  };
  const tick = () => [problems, ending].forEach((grid) => grid.refresh());
  return { page, update, tick, dispose: () => [problems, ending].forEach((grid) => grid.dispose()) };
}

// How many rows of each kind are in each state.
function countHealths(store) {
  const kinds = new Map([["Clusters", ["#/clusters?", {}]], ["Add-ons", ["#/add-ons?", {}]]]);
  const add = (title, page, health) => {
    if (!kinds.has(title)) kinds.set(title, [page, {}]);
    const counts = kinds.get(title)[1];
    counts[health] = (counts[health] ?? 0) + 1;
  };
  for (const row of store.table("cluster")) add("Clusters", "", row.health);
  for (const row of store.table("add-on")) add("Add-ons", "", row.health);
  for (const row of store.table("credential")) add(row.kind, PAGES[row.kind] ?? `#/credentials?kind=${encodeURIComponent(row.kind)}&`, row.health);
  const [clusters, addons, ...credentials] = kinds;
  return [clusters, addons, ...credentials.sort()].map(([title, [page, counts]]) => ({ title, page, counts }));
}

function healthBars(store, kinds) {
  const label = (health) => store.healths[health].label.toLowerCase();
  const bar = ({ title, page, counts }) => {
    const states = Object.entries(counts).map(([health, number]) => ({ health, number, href: `${page}health=${health}` }));
    const total = states.reduce((sum, each) => sum + each.number, 0);
    const segment = ({ health, number, href }) => {
      const made = element("a", { href, tabindex: "-1", class: `health-line-${health}`, title: `${number} ${label(health)}` });
      made.style.flexGrow = String(number);
      return made;
    };
    const link = ({ health, number, href }) => element("a", { href, class: `health health-${health}` }, `${number.toLocaleString("en")} ${label(health)}`);
    return element(
      "li",
      {},
      element("a", { href: page.slice(0, -1) }, title),
      element("b", { class: "number" }, total.toLocaleString("en")),
      element("span", { class: "meter", "aria-hidden": "true" }, ...states.map(segment)),
      element("span", { class: "states" }, ...states.map(link)),
    );
  };
  return element("ul", { class: "kinds", "aria-label": "Health of each kind" }, ...kinds.map(bar));
}

// Renewals and ends of each of the coming days; `urgent` are ends that need a person.
function countDays(store) {
  const now = store.now();
  const days = Array.from({ length: DAYS }, (_, day) => ({ title: dayTitle(now + day * DAY, day), renewals: 0, ends: 0, urgent: 0 }));
  for (const { renewal } of store.table("credential")) {
    const day = renewal === null ? undefined : days[Math.floor((renewal - now) / DAY)];
    if (day) day.renewals += 1;
  }
  for (const row of store.table("ending")) {
    const day = days[Math.max(0, Math.floor((row.expires - now) / DAY))];
    if (!day || row.renewalAnnounced) continue;
    if (store.healths[row.health].attention) day.urgent += 1;
    else day.ends += 1;
  }
  return days;
}

function dayChart(days) {
  const most = Math.max(1, ...days.map((day) => day.renewals + day.ends + day.urgent));
  const kinds = [["urgent", "need action"], ["ends", "end, as planned"], ["renewals", "are renewed"]];
  const column = (day) => {
    const bars = kinds.filter(([kind]) => day[kind]).map(([kind]) => {
      const made = element("i", { class: kind });
      made.style.height = `${(day[kind] / most) * 100}%`;
      return made;
    });
    const numbers = kinds.filter(([kind]) => day[kind]).map(([kind, what]) =>
      element("span", { class: `count ${kind}` }, day[kind].toLocaleString("en"), element("span", { class: "hidden" }, ` ${what}`)));
    return element("li", {}, element("span", { class: "stack", "aria-hidden": "true" }, ...bars), ...(numbers.length ? numbers : [element("span", { class: "quiet" }, "–")]), element("span", { class: "quiet" }, day.title));
  };
  const legend = kinds.map(([kind, what]) => element("span", {}, element("i", { class: `swatch ${kind}` }), what));
  return element(
    "div",
    {},
    element("ol", { class: "days", "aria-label": "Renewals and ends by day" }, ...days.map(column)),
    element("p", { class: "legend", "aria-hidden": "true" }, ...legend.reverse()),
  );
}

function dayTitle(seconds, day) {
  const date = new Date(seconds * 1000);
  return day === 0 ? "24 h" : date.toLocaleDateString("en", { weekday: "short", day: "numeric", timeZone: "UTC" });
}

export function eventTable(events, empty) {
  if (!events.length) return element("p", { class: "quiet" }, empty);
  const rows = events.map((event) => [
    element("time", { class: "number" }, clock(event.at)),
    element("span", { class: event.warning ? "warning" : "" }, event.warning ? "Warning" : "Normal"),
    event.about,
    withShortIds(event.what),
  ]);
  return plainTable("List of events", ["Time", "Type", "About", "What"], rows);
}

