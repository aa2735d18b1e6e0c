// Writes the reason beside each field that the server rejected. The server lists the fields in [data-where]. A later swap
// can remove a reason from the page, so all are written again, except those of fields that were edited since.
"use strict";
const listed = new WeakMap(); // by control, the list's item
const ROOT = /^(body|spec|query)(\.|$)/;

/** Return the fieldset of a list's member, such as `columns.2`. Removed members leave gaps in the names of controls. */
function findMember(list, index) {
  return document.querySelectorAll(`[data-list="${CSS.escape(list)}"]`)[index];
}

/** Return the control of a field. A path can contain the name of a union's member, which a control's name omits. */
function findControl(parts) {
  for (let omitted = parts.length; omitted >= 0; omitted -= 1) {
    const name = CSS.escape(parts.filter((_, index) => index !== omitted).join("."));
    const control = document.querySelector(`[name="${name}"]:not([type=hidden]), select[name="${name}.name"]`);
    if (control) return control;
  }
  return null;
}

function clear(control) {
  const error = document.getElementById(`${control.id}-error`);
  if (!error) return;
  error.remove();
  control.removeAttribute("aria-invalid");
  const described = (control.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id !== error.id);
  if (described.join("")) control.setAttribute("aria-describedby", described.join(" "));
  else control.removeAttribute("aria-describedby");
}

function mark(control, reason) {
  clear(control);
  const error = Object.assign(document.createElement("p"), { className: "error", id: `${control.id}-error` });
  error.textContent = reason;
  control.after(error);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", `${control.getAttribute("aria-describedby") ?? ""} ${error.id}`.trim());
  const folded = control.closest("details");
  if (folded) folded.open = true;
}

function markAll() {
  for (const control of document.querySelectorAll("[aria-invalid]")) clear(control);
  for (const violation of document.querySelectorAll("[data-where]")) {
    const [list, index, ...rest] = violation.dataset.where.replace(ROOT, "").split(".");
    const member = index === undefined ? undefined : findMember(list, index);
    const path = member ? member.dataset.member.split(".") : index === undefined ? [list] : [list, index];
    const name = violation.querySelector("strong");
    const reason = violation.textContent.replace(`${name.textContent}:`, "").trim();
    const [firstWord] = reason.split(" "); // a reason about a whole member begins with the field, as in "lower must be"
    const control = (member && findControl([...path, firstWord])) || findControl([...path, ...rest]);
    if (member) name.textContent = name.textContent.replace(/^\w+ \d+/, member.dataset.label);
    if (!control) continue;
    mark(control, reason);
    listed.set(control, violation);
  }
}

document.addEventListener("input", ({ target }) => {
  clear(target);
  listed.get(target)?.removeAttribute("data-where");
});
document.addEventListener("htmx:after:swap", markAll);
document.addEventListener("DOMContentLoaded", markAll);
