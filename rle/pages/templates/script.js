// Sorts and filters the tables. Without it the page shows every row in the order of the set.
for (const table of document.querySelectorAll("table[data-sort]")) {
  const body = table.tBodies[0], original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (head.dataset.plain !== undefined) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const next = { null: "descending", descending: "ascending", ascending: null }[before];
      heads.forEach((h) => h.removeAttribute("aria-sort"));
      const groups = original.filter((r) => r.classList.contains("group"));
      groups.forEach((r) => (r.hidden = next !== null));
      if (next === null) { body.append(...original); refilter(); return; }
      head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
      const rows = original.filter((r) => !r.classList.contains("group"));
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        return sign * (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
      });
      body.append(...rows);
      refilter();
    });
  });
}
const filters = document.querySelector(".filters");
function refilter() {
  if (!filters) return;
  const [workflow, outcome, text] = ["workflow", "outcome", "text"].map((n) => filters.elements[n].value);
  const sorted = document.querySelector("#tasks [aria-sort]");
  let shown = 0, all = 0;
  for (const row of document.querySelectorAll("#tasks tbody tr")) {
    const group = row.classList.contains("group");
    const fits = (!workflow || row.dataset.workflow === workflow) && (group ? !outcome && !text :
      (!outcome || row.dataset.outcome.split(" ").includes(outcome)) &&
      row.dataset.text.includes(text.toLowerCase()));
    row.hidden = !fits || (group && sorted !== null);
    if (!group) { all += 1; shown += fits; }
  }
  filters.querySelector("output").textContent = `${shown} of ${all} tasks`;
}
if (filters) {
  filters.hidden = false;
  filters.addEventListener("input", refilter);
  filters.addEventListener("reset", () => setTimeout(refilter));
  filters.addEventListener("submit", (event) => event.preventDefault());
  refilter();
}
