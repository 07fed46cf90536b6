// Starts the dashboard: follows the server, opens pages by address, and keeps them up to date.

import { cluster } from "./cluster.js";
import { announce, element, setText } from "./elements.js";
import { count } from "./format.js";
import { accounts, addons, clusters, credentials, pullSecrets } from "./inventory.js";
import { overview } from "./overview.js";
import { reasons } from "./reasons.js";
import { Store } from "./store.js";

const TICK = 5000;
const STATES = { live: "live", connecting: "connecting", reconnecting: "connection lost: trying again", closed: "signed out" };
const PAGES = { "": overview, credentials, clusters, "add-ons": addons, accounts, "pull-secrets": pullSecrets, reasons };

const store = new Store();
const main = document.getElementById("main");
const keys = element("p", { id: "grid-keys", class: "hidden" }, "Arrow keys move between rows, Enter opens the cluster, C copies the command.");
const unseen = element("ul", { class: "unseen", "aria-label": "Not shown" });
let current = null;
let problems = -1;
let scheduled = false;
let shownUnseen = null;

function open() {
  const [path, query] = location.hash.slice(1).split("?");
  if (location.hash === "#main") return main.focus();
  const [, first = "", second] = path.split("/").map(decodeURIComponent);
  const parameters = new URLSearchParams(query ?? "");
  const make = first === "clusters" && second ? cluster : PAGES[first] ?? overview;
  const navigated = current !== null;
  current?.dispose();
  current = make(store, parameters, second);
  main.replaceChildren(unseen, current.page, keys);
  current.update();
  for (const link of document.querySelectorAll("[data-page]")) {
    if (link.dataset.page === (first || "overview")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const heading = current.page.querySelector("h1");
  document.title = `${heading.textContent} · Watchword`;
  if (navigated) heading.focus();
}

// Several messages within one frame are shown together; a page in the background is brought up to date when it is seen.
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(changed);
}

function changed() {
  scheduled = false;
  if (current === null) open();
  else current.update();
  store.touched.clear();
  const notes = Object.entries(store.unseen).map(([name, why]) => element("li", {}, `Not shown: ${name} (${why})`));
  if (shownUnseen !== store.unseen) unseen.replaceChildren(...notes);
  shownUnseen = store.unseen;
  unseen.hidden = notes.length === 0;
  if (store.left) return;
  const found = store.problems().length;
  if (problems >= 0 && found !== problems) announce(`${count(found, "row")} now need attention`);
  problems = found;
}

function showState() {
  const place = document.getElementById("connection");
  setText(place, STATES[store.state]);
  place.dataset.state = store.state;
  setText(document.getElementById("viewer"), store.viewer?.name ?? "");
}

function followTheme() {
  const input = document.getElementById("theme");
  const apply = () => (document.documentElement.dataset.theme = input.value);
  input.value = localStorage.getItem("theme") ?? "";
  input.addEventListener("change", () => {
    localStorage.setItem("theme", input.value);
    apply();
  });
  apply();
}

addEventListener("hashchange", open);
addEventListener("keydown", (event) => {
  const search = document.getElementById("search");
  if (event.key !== "/" || !search || event.target.matches("input, select")) return;
  event.preventDefault();
  search.focus();
  search.select();
});
store.addEventListener("change", schedule);
store.addEventListener("state", showState);
followTheme();
store.follow();
setInterval(() => document.hidden || current?.tick(), TICK);
