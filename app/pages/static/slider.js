// Connects a range on a logarithmic scale with a number field, in both directions. A range that was moved before this
// script was loaded sets its number as well.
"use strict";
const rangeOf = (number) => document.querySelector(`[data-sets="${number.id}"]`);
const numberOf = (range) => document.getElementById(range.dataset.sets);
const follow = (range, number) => { if (Number(number.value) > 0) range.value = Math.log10(Number(number.value)); };
const set = (range, number) => { number.value = Number((10 ** range.value).toPrecision(3)); };
document.addEventListener("input", ({ target }) => {
  if (target.dataset.sets) set(target, numberOf(target));
  else if (target.id && rangeOf(target)) follow(rangeOf(target), target);
});
for (const range of document.querySelectorAll("[data-sets]")) {
  const untouched = range.cloneNode();
  untouched.value = "";
  const position = range.value;
  follow(range, numberOf(range));
  if (![untouched.value, range.value].includes(position)) {
    range.value = position;
    set(range, numberOf(range));
  }
}
