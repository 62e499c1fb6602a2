"use strict";
// A cross-hair over the timeline, with what each line is there. The page is complete without it.
for (const svg of document.querySelectorAll("svg.timeline")) {
  const figure = svg.closest("figure"), cross = svg.querySelector(".cross");
  const left = +svg.dataset.left, right = +svg.dataset.right;
  const begin = +svg.dataset.begin, end = +svg.dataset.end;
  let lines = null, box = null, at = null;
  const read = () => lines ??= [...svg.querySelectorAll("[data-who]")].map(path => ({
    ...path.dataset,
    clipped: "clipped" in path.dataset,
    pieces: path.getAttribute("d").split("M").slice(1).map(
      piece => piece.trim().split(" ").map(Number)),
  }));
  const value = (line, x) => {
    for (const p of line.pieces) {
      if (x < p[0] - 1 || x > p[p.length - 2] + 1) continue;
      let i = 0;
      while (i + 2 < p.length && p[i + 2] <= x) i += 2;
      const share = (line.base - p[i + 1]) / (line.base - line.high);
      const sign = line.clipped && share > .995 ? "\u2265 " : "";
      return sign + +(share * line.top).toPrecision(3) + " " + line.unit;
    }
    return "\u2013";
  };
  const show = x => {
    at = Math.min(right, Math.max(left, x));
    if (!box) {
      box = document.createElement("div");
      box.className = "reading";
      box.setAttribute("aria-hidden", "true");
      figure.append(box);
    }
    cross.setAttribute("x1", at); cross.setAttribute("x2", at);
    cross.setAttribute("visibility", "visible");
    const time = document.createElement("b");
    time.textContent = (begin + (at - left) / (right - left) * (end - begin)).toFixed(0) / 1000 + " s";
    const rows = [time];
    let unit = null;
    for (const line of read()) {
      const row = document.createElement("span"), name = document.createElement("i");
      if (unit !== null && unit !== line.unit) row.style.marginTop = "5px";
      unit = line.unit;
      name.textContent = line.who;
      row.append(name, value(line, at));
      rows.push(row);
    }
    box.replaceChildren(...rows);
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    box.hidden = false;
    box.classList.toggle("long", rows.length > 30);
    const room = figure.clientWidth, wide = box.offsetWidth, x0 = at * scale;
    box.style.left = (x0 + 16 + wide <= room ? x0 + 16 : Math.max(0, x0 - 16 - wide)) + "px";
    const above = svg.getBoundingClientRect().top;
    box.style.top = Math.max(0, 12 - above) + "px";
  };
  const hide = () => { cross.setAttribute("visibility", "hidden"); if (box) box.hidden = true; };
  svg.addEventListener("pointermove", event => {
    const all = svg.getBoundingClientRect();
    const x = (event.clientX - all.left) * svg.viewBox.baseVal.width / all.width;
    if (x < left || x > right) hide(); else show(x);
  });
  svg.addEventListener("pointerleave", hide);
  figure.addEventListener("blur", hide);
  figure.addEventListener("keydown", event => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.key === "Escape") hide();
    if (!step || getComputedStyle(svg).display === "none") return;
    event.preventDefault();
    show((at ?? left) + step * (event.shiftKey ? 20 : 4));
  });
}
