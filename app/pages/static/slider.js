// A range on a logarithmic scale moves the number that it names, and follows what is typed there.
"use strict";
const rangeOf = (number) => document.querySelector(`[data-sets="${number.id}"]`);
const follow = (range, number) => { if (Number(number.value) > 0) range.value = Math.log10(Number(number.value)); };
document.addEventListener("input", ({ target }) => {
  if (target.dataset.sets) document.getElementById(target.dataset.sets).value = Number((10 ** target.value).toPrecision(3));
  else if (target.id && rangeOf(target)) follow(rangeOf(target), target);
});
for (const range of document.querySelectorAll("[data-sets]")) follow(range, document.getElementById(range.dataset.sets));
