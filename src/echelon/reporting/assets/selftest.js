// Opened with #selftest, the page tries itself: it sorts tables, turns every control, and writes down what it found.
function sorted(values, direction) {
  const there = values.filter((value) => value !== null);
  const ordered = there.every((value, i) => i === 0 || direction * compare(there[i - 1], value) <= 0);
  return ordered && values.slice(there.length).every((value) => value === null);
}

function trySorting(table) {
  const names = [];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    for (let click = 0; click < 2; click++) {
      head.querySelector("button").click();
      const direction = head.getAttribute("aria-sort") === "ascending" ? 1 : -1;
      const values = [...table.tBodies[0].rows].map((row) => sortValue(row.cells[column]));
      names.push({ column: head.textContent, direction, sorted: sorted(values, direction), first: values[0] });
    }
  });
  return names;
}

function tryControls(section) {
  let turned = 0;
  const seen = () => [...section.querySelectorAll("select")];
  for (let i = 0; i < seen().length; i++) {
    for (let k = 0; k < Math.min(4, seen()[i].options.length); k++) {
      const select = seen()[i];
      select.selectedIndex = k;
      select.dispatchEvent(new Event("change"));
      turned++;
    }
  }
  for (const button of section.querySelectorAll(".legend button")) {
    button.click();
    button.click();
    turned++;
  }
  const threads = section.querySelectorAll(".threads button").length;
  for (let i = 0; i < threads; i++) section.querySelectorAll(".threads button")[i].click();
  for (const details of section.querySelectorAll("details")) details.open = true;
  return { turned, threads };
}

function nonsense() {
  return [...document.querySelectorAll("svg.plot [d], svg.plot [x], svg.plot [cx], svg.plot [width]")]
    .filter((node) => ["d", "x", "cx", "width"].some((name) => /NaN|undefined|Infinity/.test(node.getAttribute(name) ?? "")))
    .length;
}

function selfTest() {
  const tables = Object.fromEntries([...document.querySelectorAll("table.sortable")].map((table) => [table.id, trySorting(table)]));
  const blocks = Object.fromEntries([...document.querySelectorAll(".block")].map((block) => [block.id, {
    ...tryControls(block), plots: block.querySelectorAll("svg.plot").length,
  }]));
  const found = { tables, blocks, nonsense: nonsense(), errors: window.pageErrors };
  document.getElementById("selftest").textContent = JSON.stringify(found);
}
