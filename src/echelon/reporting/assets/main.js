// Puts everything in its place.
const DRAWINGS = {
  standings: drawStandings, levels: drawLevels, paired: drawPaired, days: drawDays, losses: drawLosses,
  training: drawTraining, shares: drawShares, negotiations: drawNegotiations,
};

function setUpTheme() {
  const button = document.getElementById("theme");
  const order = ["auto", "light", "dark"];
  let now = 0;
  button.addEventListener("click", () => {
    now = (now + 1) % order.length;
    if (order[now] === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = order[now];
    button.querySelector("span").textContent = order[now];
    button.setAttribute("aria-label", `Colours: ${order[now] === "auto" ? "as the system" : order[now]}`);
  });
}

const { runs } = JSON.parse(document.getElementById("data").textContent);
assignColours(runs);
setUpTheme();
document.querySelectorAll("table.sortable").forEach(makeSortable);
for (const run of runs) {
  for (const container of document.getElementById(run.id).querySelectorAll("[data-chart]")) {
    DRAWINGS[container.dataset.chart](container, run);
  }
}
if (location.hash === "#selftest") selfTest();
