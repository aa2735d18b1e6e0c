// Keeps what a person types while a response is on its way.
//
// If a form was changed after its request, the response is dropped and the request is sent again. A declaration (JSON)
// that was edited by hand after a request is not replaced by the response. Fields that were filled in before the page's
// scripts were loaded, by the person or by the browser, are sent when the scripts are ready. A declaration that was
// changed by then counts as edited by hand. The summary of a folded list of boxes states how many are checked. A
// forecast is removed when the job that it describes is changed.
"use strict";
let edits = 0; // number of edits of the declaration by hand
const contents = (form) => new URLSearchParams(new FormData(form)).toString();
/** Disable the editor while a pasted declaration is read, because the response replaces the editor. */
const busy = (ctx, is) => {
  if (ctx.target?.id !== "editor" || ctx.request.form) return;
  ctx.target.inert = is;
  ctx.target.ariaBusy = String(is);
};
document.addEventListener("input", ({ target }) => { if (target.id === "spec") edits += 1; });
/** Write the number of checked boxes into the summary of their list, or the words for what applies if none is checked. */
document.addEventListener("change", ({ target }) => {
  const count = target.type === "checkbox" && target.closest("details")?.querySelector("[data-count]");
  if (count) count.textContent = target.closest("fieldset").querySelectorAll(":checked").length || count.dataset.count;
});
/** Remove the forecast and stop a running one. A forecast covers several epsilons, so a change of epsilon keeps it. */
const outdate = ({ target }) => {
  const forecast = document.getElementById("forecast");
  const requested = document.getElementById("which");
  if (!forecast || !target.closest("#job") || target.closest("[name='privacy.epsilon'], [data-sets]")) return;
  if (!forecast.hasChildNodes() && !requested.matches(".htmx-request")) return;
  htmx.trigger(requested, "htmx:abort");
  const note = Object.assign(document.createElement("p"), { className: "hint" });
  note.textContent = "The job has changed since the forecast. Request the forecast again.";
  forecast.replaceChildren(note);
};
document.addEventListener("input", outdate);
document.addEventListener("click", (event) => { if (event.target.closest("button[name=step]")) outdate(event); });
document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
  if (ctx.request.form?.dataset.typed !== undefined) ctx.contents = contents(ctx.request.form);
  ctx.edits ??= edits;
  busy(ctx, true);
});
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => busy(ctx, false));
document.addEventListener("htmx:before:swap", (event) => {
  const { ctx, tasks } = event.detail;
  const { form, action } = ctx.request;
  if (ctx.contents !== undefined && ctx.contents !== contents(form)) {
    event.preventDefault();
    const source = form.contains(ctx.target) ? ctx.target : form;
    const { target, swap, vals, values } = ctx;
    htmx.ajax("POST", action, { source, target, swap, values: { ...vals, ...values }, edits: ctx.edits });
  } else if (ctx.edits !== edits) {
    tasks.splice(0, tasks.length, ...tasks.filter(({ target }) => target?.id !== "spec-part"));
  }
});
document.addEventListener("DOMContentLoaded", () => setTimeout(() => { // htmx listens by then
  const spec = document.getElementById("spec");
  if (spec && spec.value !== spec.defaultValue) return;
  for (const form of document.querySelectorAll("form[data-typed]")) {
    const empty = form.cloneNode(true);
    empty.reset();
    const [now, then] = [form, empty].map((each) => Array.from(each.querySelectorAll("input, select, textarea")));
    const changed = now.filter(({ value, checked }, i) => value !== then[i].value || checked !== then[i].checked);
    for (const control of changed) control.dispatchEvent(new Event("change", { bubbles: true }));
  }
}));
