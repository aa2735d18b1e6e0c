// Sends the request that a form of this page describes, and shows the response as text. Filters the list of routes, and
// copies commands. The page stores nothing.
"use strict";

const root = location.pathname.replace(/\/docs\/?$/, "");
const MOST_CHARACTERS = 100000; // of a response that is shown

for (const part of document.querySelectorAll("[data-try]")) part.hidden = false;
const filter = document.getElementById("filter");
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/);
  const routes = Array.from(document.querySelectorAll("[data-route]"));
  for (const route of routes) route.hidden = !words.every((word) => route.dataset.route.includes(word));
  const count = routes.filter((route) => !route.hidden).length;
  document.getElementById("matches").textContent = `${count} of ${routes.length} routes`;
});
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard; // browsers offer it on https and on this machine only
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
  });
}
for (const form of document.querySelectorAll("form[data-path]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}

async function send(form) {
  const shown = form.querySelector("output");
  shown.textContent = "sent ...";
  try {
    const answer = await fetch(...requestOf(form));
    const names = ["Location", "Retry-After", "ETag"].filter((name) => answer.headers.has(name));
    const headers = names.map((name) => `${name}: ${answer.headers.get(name)}\n`);
    const body = pretty(await answer.text()).slice(0, MOST_CHARACTERS);
    shown.textContent = `${answer.status}\n${headers.join("")}\n${body}`;
  } catch {
    shown.textContent = "no answer from the server";
  }
}

/** Return the arguments of `fetch` for a form. */
function requestOf(form) {
  const headers = {};
  const query = new URLSearchParams();
  let path = form.dataset.path;
  for (const { name, value, dataset } of form.querySelectorAll("[data-in]")) {
    if (value === "") continue;
    if (dataset.in === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (dataset.in === "query") query.append(name, value);
    else headers[name] = value;
  }
  const token = document.getElementById("token").value.trim();
  if (token !== "") headers.Authorization = `Bearer ${token}`;
  const request = { method: form.dataset.method, headers, body: body(form, headers), credentials: "omit" };
  return [`${root}${path}${query.size ? `?${query}` : ""}`, { ...request, cache: "no-store", redirect: "error" }];
}

function body(form, headers) {
  const { body: written, spec, file } = form.elements;
  if (spec) {
    const parts = new FormData();
    parts.append("spec", spec.value);
    parts.append("file", file.files[0] ?? new Blob([]));
    return parts;
  }
  if (file) return file.files[0];
  if (written) headers["Content-Type"] = "application/json";
  return written?.value;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
