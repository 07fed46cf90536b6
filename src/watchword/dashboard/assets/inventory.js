// The pages with one searchable table: credentials on a time axis, those of accounts and of image pulls, clusters, add-ons.

import { Axis } from "./axis.js";
import { addonColumns, clusterColumns, credentialColumns } from "./columns.js";
import { element, setText } from "./elements.js";
import { count } from "./format.js";
import { Grid } from "./grid.js";
import { clusterOf, searchText } from "./store.js";

export function credentials(store, parameters) {
  return credentialPage(store, parameters, {
    title: "Credentials",
    noun: "credential",
    choices: [{ name: "kind", title: "Kind", options: () => values(store, "credential", "kind") }],
  });
}

export function accounts(store, parameters) {
  return credentialPage(store, parameters, { title: "Accounts", noun: "account", kind: "account token" });
}

export function pullSecrets(store, parameters) {
  return credentialPage(store, parameters, { title: "Pull secrets", noun: "pull secret", kind: "pull secret" });
}

function credentialPage(store, parameters, description) {
  const axis = new Axis();
  const one = { name: "credentials one-kind", kinds: false, command: true };
  return inventory(store, parameters, {
    ...description,
    table: "credential",
    columns: credentialColumns(store, axis, description.kind ? one : {}),
    axis,
  });
}

export function clusters(store, parameters) {
  return inventory(store, parameters, {
    title: "Clusters",
    table: "cluster",
    noun: "cluster",
    columns: clusterColumns(store),
  });
}

export function addons(store, parameters) {
  return inventory(store, parameters, {
    title: "Add-ons",
    table: "add-on",
    noun: "add-on",
    columns: addonColumns(store),
  });
}

function inventory(store, parameters, description) {
  const open = (row) => {
    if (clusterOf(row)) location.hash = `#/clusters/${encodeURIComponent(clusterOf(row))}`;
  };
  const grid = new Grid({ label: description.title, columns: description.columns, open, now: () => store.now() });
  const found = element("span", { class: "quiet", role: "status" });
  const search = element("input", { type: "search", id: "search", value: parameters.get("q") ?? "", autocomplete: "off", placeholder: "Search ( / )", "aria-label": `Search ${description.title.toLowerCase()}` });
  const choices = [...(description.choices ?? []), { name: "health", title: "Health", options: () => healths(store) }];
  const selects = choices.map((choice) => select(choice, parameters));
  const page = element(
    "div",
    { class: "page full" },
    element("h1", { tabindex: "-1" }, description.title),
    element("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, search, ...selects.map(({ label }) => label), found),
    ...(description.axis ? [legendLine()] : []),
    grid.element,
  );
  const update = () => {
    selects.forEach((each) => each.fill());
    const all = store.table(description.table).filter((row) => !description.kind || row.kind === description.kind);
    const rows = all.filter(matcher(search.value, selects));
    if (description.axis?.fit(rows, store.now())) grid.redraw();
    setText(found, rows.length === all.length ? count(all.length, description.noun) : `${rows.length.toLocaleString("en")} of ${count(all.length, description.noun)}`);
    grid.setRows(rows, all.length ? `No ${description.noun} matches the search.` : `There are no ${description.noun}s.`);
  };
  const changed = () => {
    history.replaceState(null, "", address(search, selects));
    grid.toTop();
    update();
  };
  search.addEventListener("input", changed);
  selects.forEach(({ input }) => input.addEventListener("change", changed));
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

function select({ name, title, options }, parameters) {
  const input = element("select", { name });
  const wanted = parameters.get(name) ?? "";
  const fill = () => {
    const kept = input.options.length ? input.value : wanted;
    const list = [["", "all"], ...options()];
    if (kept && !list.some(([value]) => value === kept)) list.push([kept, kept]);
    const same = list.length === input.options.length && list.every(([value, text], at) => input.options[at].value === value && input.options[at].text === text);
    if (same) return;
    input.replaceChildren(...list.map(([value, text]) => element("option", { value }, text)));
    input.value = kept;
  };
  fill();
  return { name, input, fill, label: element("label", {}, `${title} `, input) };
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
  for (const { name, input } of selects) if (input.value) kept.set(name, input.value);
  const path = location.hash.split("?")[0];
  return String(kept) ? `${path}?${kept}` : path;
}

function legendLine() {
  const entry = (name, title) => element("span", {}, element("i", { class: `key ${name}` }), title);
  return element("p", { class: "legend", "aria-hidden": "true" }, entry("issued", "issued"), entry("renewal", "renewal"), entry("expiry", "expiry"), entry("now", "now"));
}
