// The pages with one searchable table: credentials on a time axis, clusters, add-ons.

import { Axis, SPANS, chooseSpan } from "./axis.js";
import { addonColumns, clusterColumns, credentialColumns } from "./columns.js";
import { element, setText } from "./elements.js";
import { count } from "./format.js";
import { Grid } from "./grid.js";
import { clusterOf, searchText } from "./store.js";

export function credentials(store, parameters) {
  const usual = chooseSpan(store.table("credential"), store.now());
  const axis = new Axis(Number(parameters.get("span") ?? usual));
  const spans = SPANS.map((span, number) => [String(number), span.title]);
  // The rows that come first may not be like the rest.
  let fitted = parameters.has("span") || !store.left;
  const fit = (span, grid) => {
    if (fitted || store.left) return;
    fitted = true;
    if (!axis.fit(store.table("credential"), store.now())) return;
    span.required = span.input.value = String(SPANS.indexOf(axis.span));
    grid.redraw();
  };
  return inventory(store, parameters, {
    title: "Credentials",
    table: "credential",
    noun: "credential",
    columns: credentialColumns(store, axis),
    legend: true,
    fit,
    choices: [
      { name: "kind", title: "Kind", options: () => values(store, "credential", "kind") },
      { name: "health", title: "Health", options: () => healths(store) },
      { name: "span", title: "Axis", options: () => spans, required: String(usual) },
    ],
  });
}

export function clusters(store, parameters) {
  return inventory(store, parameters, {
    title: "Clusters",
    table: "cluster",
    noun: "cluster",
    columns: clusterColumns(store),
    choices: [{ name: "health", title: "Health", options: () => healths(store) }],
  });
}

export function addons(store, parameters) {
  return inventory(store, parameters, {
    title: "Add-ons",
    table: "add-on",
    noun: "add-on",
    columns: addonColumns(store),
    choices: [{ name: "health", title: "Health", options: () => healths(store) }],
  });
}

function inventory(store, parameters, description) {
  const open = (row) => {
    if (clusterOf(row)) location.hash = `#/clusters/${encodeURIComponent(clusterOf(row))}`;
  };
  const grid = new Grid({ label: description.title, columns: description.columns, open, now: () => store.now() });
  const found = element("span", { class: "quiet", role: "status" });
  const search = element("input", { type: "search", id: "search", value: parameters.get("q") ?? "", autocomplete: "off", placeholder: "Search ( / )", "aria-label": `Search ${description.title.toLowerCase()}` });
  const selects = description.choices.map((choice) => select(choice, parameters));
  const fields = selects.map(({ label }) => label);
  const legend = description.legend ? [legendLine()] : [];
  const page = element(
    "div",
    { class: "page full" },
    element("h1", { tabindex: "-1" }, description.title),
    element("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, search, ...fields, found),
    ...legend,
    grid.element,
  );
  const update = () => {
    selects.forEach((each) => each.fill());
    description.fit?.(selects.find((each) => each.name === "span"), grid);
    const all = store.table(description.table);
    const rows = all.filter(matcher(search.value, selects));
    setText(found, rows.length === all.length ? count(all.length, description.noun) : `${rows.length.toLocaleString("en")} of ${count(all.length, description.noun)}`);
    grid.setRows(rows, all.length ? `No ${description.noun} matches the search.` : `There are no ${description.noun}s.`);
  };
  const changed = () => {
    remember(search, selects);
    grid.toTop();
    update();
  };
  search.addEventListener("input", changed);
  selects.forEach(({ name, input }) => input.addEventListener("change", () => (name === "span" ? reopen(search, selects) : changed())));
  return { page, update, tick: () => grid.refresh(), dispose: () => grid.dispose() };
}

function matcher(query, selects) {
  const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
  const [kind, health] = ["kind", "health"].map((name) => selects.find((each) => each.name === name)?.input.value ?? "");
  return (row) =>
    terms.every((term) => searchText(row).includes(term)) &&
    (!kind || row.kind === kind) &&
    (!health || String(row.health) === health);
}

function select({ name, title, options, required }, parameters) {
  const input = element("select", { name });
  const wanted = parameters.get(name) ?? required ?? "";
  const fill = () => {
    const kept = input.options.length ? input.value : wanted;
    const list = [...(required ? [] : [["", "all"]]), ...options()];
    if (kept && !list.some(([value]) => value === kept)) list.push([kept, kept]);
    const same = list.length === input.options.length && list.every(([value, text], at) => input.options[at].value === value && input.options[at].text === text);
    if (same) return;
    input.replaceChildren(...list.map(([value, text]) => element("option", { value }, text)));
    input.value = kept;
  };
  fill();
  return { name, input, fill, label: element("label", {}, `${title} `, input), required };
}

function values(store, table, key) {
  return [...new Set(store.table(table).map((row) => row[key]))].sort().map((value) => [value, value]);
}

function healths(store) {
  return store.healths.map((health, number) => [String(number), health.label]);
}

function address(search, selects) {
  const kept = new URLSearchParams();
  if (search.value) kept.set("q", search.value);
  for (const { name, input, required } of selects) if (input.value && input.value !== required) kept.set(name, input.value);
  const path = location.hash.split("?")[0];
  return String(kept) ? `${path}?${kept}` : path;
}

function remember(search, selects) {
  history.replaceState(null, "", address(search, selects));
}

function reopen(search, selects) {
  remember(search, selects);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function legendLine() {
  const entry = (name, title) => element("span", {}, element("i", { class: `key ${name}` }), title);
  return element("p", { class: "legend", "aria-hidden": "true" }, entry("issued", "issued"), entry("renewal", "renewal"), entry("expiry", "expiry"), entry("now", "now"));
}
