// Tables that sort by a click, or by the keyboard: each heading is a button.
function sortValue(cell) {
  const text = cell.dataset.v;
  if (text === undefined || text === "") return null;
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}

// Sort by a column; what has no value stays last either way.
function sortTable(table, column, direction) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, value: sortValue(row.cells[column]) }));
  rows.sort((a, b) => {
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
    return direction * compare(a.value, b.value);
  });
  body.append(...rows.map(({ row }) => row));
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (i === column) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = h("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const first = head.classList.contains("num") && head.textContent !== "#" ? -1 : 1;
      sortTable(table, column, before === null ? first : before === "ascending" ? -1 : 1);
    });
  });
}
