// The page of one cluster: its credentials, conditions, events and history.

import { Axis } from "./axis.js";
import { addonColumns, credentialColumns } from "./columns.js";
import { commandLine, element, healthMark, plainTable, reasonLink, section, withShortIds } from "./elements.js";
import { clock } from "./format.js";
import { Grid } from "./grid.js";
import { eventTable } from "./overview.js";

export function cluster(store, parameters, name) {
  const now = () => store.now();
  const own = (table) => store.table(table).filter((row) => row.cluster === name);
  const axis = new Axis();
  const credentials = new Grid({ label: "Credentials of the cluster", columns: credentialColumns(store, axis), now });
  const addons = new Grid({ label: "Add-ons of the cluster", columns: addonColumns(store), now });
  const summary = element("div", { class: "summary" });
  const details = element("div", {});
  const page = element(
    "div",
    { class: "page" },
    element("p", { class: "path" }, element("a", { href: "#/clusters" }, "Clusters"), " / ", name),
    element("h1", { tabindex: "-1" }, name),
    summary,
    section("Credentials", credentials.element),
    section("Add-ons", addons.element),
    details,
  );
  let [shown, reading] = [null, false];
  const read = async () => {
    if (reading) return;
    reading = true;
    try {
      const answer = await fetch(`/api/clusters/${encodeURIComponent(name)}`);
      const text = answer.ok ? await answer.text() : "";
      if (text !== shown) details.replaceChildren(...(text ? detailSections(JSON.parse(text)) : []));
      shown = text;
    } catch {
      // The connection is lost, and the page says so: the next tick tries again.
    } finally {
      reading = false;
    }
  };
  const update = () => {
    const row = store.rows.get(`cluster/${name}`);
    summary.replaceChildren(...(row ? summaryOf(store, row) : [element("p", {}, missing(store))]));
    if (axis.fit(own("credential"), store.now())) credentials.redraw();
    credentials.setRows(own("credential"), "No credential of this cluster is known.");
    addons.setRows(own("add-on"), "This cluster has no add-ons.");
    if (shown === null || store.touched.has(name)) read();
  };
  const grids = [credentials, addons];
  const tick = () => {
    grids.forEach((grid) => grid.refresh());
    read(); // conditions and events change without a change of a row
  };
  return { page, update, tick, dispose: () => grids.forEach((grid) => grid.dispose()) };
}

function missing(store) {
  return store.left ? "Reading the fleet…" : "There is no such cluster, or you may not see it.";
}

function summaryOf(store, row) {
  const fact = (title, ...value) => element("div", {}, element("dt", {}, title), element("dd", {}, ...value));
  const facts = element(
    "dl",
    { class: "facts" },
    fact("Health", healthMark(store, row.health)),
    fact("Accepted", row.accepted),
    fact("Joined", row.joined),
    fact("Available", row.available),
    fact("Version", row.version || "–"),
  );
  const next = row.command ? [element("p", {}, "Next: ", commandLine(row.command))] : [];
  return [facts, ...(row.note ? [element("p", { class: "note-line" }, row.note)] : []), ...next];
}

function detailSections(cluster) {
  const ordered = [...cluster.conditions].sort((one, other) => Number(one.good) - Number(other.good));
  const conditions = ordered.map((each) => [
    element("span", { class: each.good ? "" : "bad" }, each.status),
    each.type,
    each.reason ? reasonLink(each.reason, cluster.name) : "–",
    each.object,
    withShortIds(each.message || "–"),
    element("time", { class: "number" }, clock(each.since)),
  ]);
  const changes = cluster.history.map((each) => [element("time", { class: "number" }, clock(each.at)), each.about, withShortIds(each.what)]);
  const labels = Object.entries(cluster.labels).map(([key, value]) => [key, value || "–"]);
  const quiet = (text) => element("p", { class: "quiet" }, text);
  return [
    section("Conditions", conditions.length ? plainTable("Conditions of the cluster", ["Status", "Type", "Reason", "Object", "Message", "Since"], conditions) : quiet("No conditions yet.")),
    section("Events", eventTable(cluster.events, "No events of this cluster are kept by the hub.")),
    section("History", changes.length ? plainTable("History of the cluster's credentials", ["Time", "About", "What"], changes) : quiet("Nothing changed since the dashboard started.")),
    section("Labels", labels.length ? plainTable("Labels of the cluster", ["Label", "Value"], labels) : quiet("The cluster has no labels.")),
  ];
}
