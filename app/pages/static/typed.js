// What is typed while an answer is on its way stays: an answer to what a form no longer says is asked for again, and a
// declaration that was changed by hand since it was asked for is not replaced. So does what was filled in before the
// page's scripts had arrived, or kept by the browser; a declaration that was written by then counts as changed by hand.
"use strict";
let edits = 0; // of the declaration, by hand
const said = (form) => new URLSearchParams(new FormData(form)).toString();
/** While a pasted declaration is read, what it replaces takes no typing. */
const busy = (ctx, is) => {
  if (ctx.target?.id !== "editor" || ctx.request.form) return;
  ctx.target.inert = is;
  ctx.target.ariaBusy = String(is);
};
document.addEventListener("input", ({ target }) => { if (target.id === "spec") edits += 1; });
document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
  if (ctx.request.form?.dataset.typed !== undefined) ctx.said = said(ctx.request.form);
  ctx.edits ??= edits;
  busy(ctx, true);
});
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => busy(ctx, false));
document.addEventListener("htmx:before:swap", (event) => {
  const { ctx, tasks } = event.detail;
  const { form, action } = ctx.request;
  if (ctx.said !== undefined && ctx.said !== said(form)) {
    event.preventDefault();
    const source = form.contains(ctx.target) ? ctx.target : form;
    const { target, swap, vals, values } = ctx;
    htmx.ajax("POST", action, { source, target, swap, values: { ...vals, ...values }, edits: ctx.edits });
  } else if (ctx.edits !== edits) {
    tasks.splice(0, tasks.length, ...tasks.filter(({ target }) => target?.id !== "said"));
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
