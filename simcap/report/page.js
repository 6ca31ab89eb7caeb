/* Draws the figures from the JSON in the page, in the colours of the theme in force; saves them; switches the theme. */
"use strict";
(() => {
  const { themes, figures } = JSON.parse(document.getElementById("figure-data").textContent);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const themeButton = document.getElementById("theme");
  const views = new Map();
  let choice = "system";

  const mode = () => (choice === "system" ? (system.matches ? "dark" : "light") : choice);

  const legendColumns = (width) => (width < 420 ? 1 : width < 760 ? 2 : 4);

  async function draw(figure) {
    const place = document.getElementById(`chart-${figure.key}`);
    const now = mode();
    try {
      views.get(figure.key)?.finalize();
      const shown = await vegaEmbed(place, figure.spec, {
        actions: false,
        renderer: "svg",
        config: { ...themes[now], legend: { ...themes[now].legend, columns: legendColumns(place.clientWidth) } },
        tooltip: { theme: now },
        bind: document.getElementById(`controls-${figure.key}`),
      });
      views.set(figure.key, shown);
      place.dataset.mode = now;
      place.dataset.columns = legendColumns(place.clientWidth);
    } catch (error) {
      place.innerHTML = "";
      const said = document.createElement("p");
      said.className = "error";
      said.textContent = `This figure could not be drawn: ${error.message}`;
      place.append(said);
      console.error(error);
    }
  }

  /* Vega follows the width of its place by itself, but not with the columns of a legend. */
  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const figure = figures.find((each) => `chart-${each.key}` === target.id);
      if (target.dataset.columns && target.dataset.columns !== String(legendColumns(target.clientWidth))) {
        target.dataset.columns = "";
        setTimeout(() => {  // outside the observer's own turn, in which a change of size would be reported as a loop
          document.getElementById(`controls-${figure.key}`).innerHTML = "";
          draw(figure);
        });
      }
    }
  });

  async function drawAll() {
    for (const figure of figures) {
      document.getElementById(`controls-${figure.key}`).innerHTML = "";
      await draw(figure);
    }
    root.dataset.drawn = mode();
  }

  function csv(rows) {
    const columns = Object.keys(rows[0]);
    const cell = (value) => {
      const text = value === null || value === undefined ? "" : String(value);
      return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((row) => row.map(cell).join(",") + "\n").join("");
  }

  async function content(figure, format) {
    const view = views.get(figure.key).view;
    if (format === "png") return (await view.toCanvas(2)).toDataURL("image/png");
    const [text, type] = format === "svg" ? [await view.toSVG(), "image/svg+xml"] : [csv(figure.rows), "text/csv"];
    return URL.createObjectURL(new Blob([text], { type }));
  }

  async function save(figure, format) {
    const link = document.createElement("a");
    link.href = await content(figure, format);
    link.download = `${figure.key}.${format}`;
    link.click();
    if (link.href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  /* The rows of a figure as a table, made when somebody opens it: for those who read rather than look. */
  function table(figure) {
    const made = document.createElement("table");
    const columns = Object.keys(figure.rows[0] ?? {});
    const head = made.createTHead().insertRow();
    for (const name of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      head.append(cell);
    }
    const body = made.createTBody();
    for (const row of figure.rows) {
      const line = body.insertRow();
      for (const name of columns) {
        const value = row[name];
        line.insertCell().textContent = typeof value === "number" ? Number(value.toPrecision(5)) : value ?? "";
      }
    }
    return made;
  }

  for (const details of document.querySelectorAll("details.numbers")) {
    const figure = figures.find((each) => each.key === details.dataset.figure);
    details.addEventListener("toggle", () => details.lastElementChild.replaceChildren(...(details.open ? [table(figure)] : [])));
  }

  for (const button of document.querySelectorAll("button[data-figure]")) {
    const figure = figures.find((each) => each.key === button.dataset.figure);
    button.addEventListener("click", () => save(figure, button.dataset.format));
  }

  themeButton.addEventListener("click", () => {
    choice = { system: "light", light: "dark", dark: "system" }[choice];
    if (choice === "system") delete root.dataset.theme;
    else root.dataset.theme = choice;
    themeButton.textContent = `Theme: ${choice}`;
    drawAll();
  });
  system.addEventListener("change", () => choice === "system" && drawAll());
  drawAll();
  for (const figure of figures) widths.observe(document.getElementById(`chart-${figure.key}`));
})();
