"use strict";

// Data from the store only ever becomes the text of a node, never HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const FIRST_ROWS = 25, MORE_ROWS = 200, FILTER_DELAY_MS = 120, SHORT_TEXT = 80, NARROW_LABEL_WIDTH = 110;
  const COPY_FEEDBACK_MS = 2000;
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const counts = new Intl.NumberFormat("en");
  // Vega warns of empty layers, which are normal here: a partition may have no transaction that has ended.
  const ERRORS_ONLY = 1;
  const SEVERITIES = ["clean", "info", "warning", "error", "critical", "unread"];
  const DURATION_UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
  const SIZE_UNITS = ["bytes", "KB", "MB", "GB", "TB", "PB"];

  // Longer durations come from corrupt timestamps. The limit and the forms below are those of formatting.py.
  const LONGEST_DURATION_MS = 999999999 * 86400000;

  function createElement(name, attributes, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }

  function formatTime(ms) {
    const date = new Date(Number(ms));
    if (Number(ms) === -1) return "unknown";
    if (Number(ms) < 0) return String(ms);
    return Number.isNaN(date.getTime()) ? ms + " ms" : date.toISOString().replace("T", " ").replace("Z", " UTC");
  }

  function formatDuration(value) {
    let ms = Math.round(Number(value));
    if (ms < 0) return "-" + formatDuration(-ms);
    if (ms > LONGEST_DURATION_MS) return value + " ms";
    if (ms < 1000) return ms + " ms";
    if (ms < 60000) return Number((ms / 1000).toPrecision(3)) + " s";
    const first = DURATION_UNITS.findIndex(([length]) => ms >= length);
    const parts = [];
    for (const [length, unit] of DURATION_UNITS.slice(first, first + 2)) {
      const count = Math.floor(ms / length);
      ms -= count * length;
      if (count) parts.push(count + " " + unit);
    }
    return parts.join(" ");
  }

  function formatSize(value) {
    let rest = Number(value), index = 0;
    while (rest >= 1000 && index < SIZE_UNITS.length - 1) {
      rest /= 1000;
      index += 1;
    }
    return index ? rest.toFixed(1) + " " + SIZE_UNITS[index] : rest + " bytes";
  }

  // By the kind of a column.
  const FORMATTERS = {
    count: (value) => counts.format(Number(value)),
    duration: formatDuration,
    flag: (value) => (value ? "yes" : "no"),
    number: String,
    position: (value) => "0x" + BigInt(value).toString(16),
    severity: String,
    share: (value) => (Number(value) * 100).toFixed(1) + " %",
    size: formatSize,
    text: String,
    time: formatTime,
  };
  const TEXT_KINDS = ["text", "flag", "severity"];

  const format = (kind, value) => (value === null ? "" : FORMATTERS[kind](value));

  function compare(kind, left, right) {
    if (kind === "severity") return SEVERITIES.indexOf(left) - SEVERITIES.indexOf(right);
    return TEXT_KINDS.includes(kind) ? collator.compare(String(left), String(right)) : Number(left) - Number(right);
  }

  // Nulls come last in both directions.
  function sorted(rows, column, kind, direction) {
    const sign = direction === "ascending" ? 1 : -1;
    return rows.slice().sort((left, right) => {
      const a = left[column], b = right[column];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * compare(kind, a, b);
    });
  }

  function showTable(container, name) {
    const { caption, columns, rows, total } = data.tables[name];
    const body = createElement("tbody", {});
    const status = createElement("p", { role: "status", class: "status" });
    const filter = createElement("input", { type: "search", id: "filter-" + name, autocomplete: "off", spellcheck: "false" });
    filter.setAttribute("aria-describedby", "caption-" + name);
    const more = createElement("button", { type: "button" }, "Show more");
    const texts = new Map();
    let order = rows, limit = FIRST_ROWS;

    function textOf(row) {
      if (!texts.has(row)) {
        texts.set(row, row.map((value, index) => format(columns[index].kind, value)).join("\u0000").toLowerCase());
      }
      return texts.get(row);
    }

    function cells(row) {
      return row.map((value, index) => {
        const kind = columns[index].kind;
        const attributes = { class: kind };
        if (kind === "text" && value !== null && value.length > SHORT_TEXT) attributes.class = "text long";
        if (kind === "severity" && SEVERITIES.includes(value)) attributes.class = "severity " + value;
        if (kind === "size" && value !== null) attributes.title = counts.format(Number(value)) + " bytes";
        if (kind === "position" && value !== null) attributes.title = "byte " + value;
        if (index === 0) attributes.scope = "row";
        return createElement(index === 0 ? "th" : "td", attributes, format(kind, value));
      });
    }

    function show() {
      const terms = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const matching = terms.length ? order.filter((row) => terms.every((term) => textOf(row).includes(term))) : order;
      const shown = matching.slice(0, limit);
      body.replaceChildren(...shown.map((row) => createElement("tr", {}, ...cells(row))));
      more.hidden = shown.length === matching.length;
      const left = total - rows.length;
      status.textContent =
        counts.format(shown.length) + " of " + counts.format(matching.length) + (terms.length ? " matching rows" : " rows") + " shown" +
        (left > 0 ? "; " + counts.format(left) + " more are in the store" : "");
    }

    function sort(index, headings) {
      const heading = headings[index];
      const direction = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", direction);
      order = sorted(rows, index, columns[index].kind, direction);
      show();
    }

    const headings = columns.map(({ name: label, kind, doc }, index) => {
      const button = createElement("button", { type: "button", title: doc }, label.replaceAll("_", " "));
      button.addEventListener("click", () => sort(index, headings));
      return createElement("th", { scope: "col", class: kind }, button);
    });
    let timer = 0;
    filter.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        limit = FIRST_ROWS;
        show();
      }, FILTER_DELAY_MS);
    });
    more.addEventListener("click", () => {
      limit += MORE_ROWS;
      show();
    });
    const title = createElement("caption", { id: "caption-" + name }, caption);
    const scroll = createElement("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": title.id });
    const head = createElement("thead", {}, createElement("tr", {}, ...headings));
    scroll.append(createElement("table", {}, title, head, body));
    const label = createElement("label", { for: filter.id }, "Filter");
    container.append(createElement("div", { class: "tools" }, label, filter, status), scroll, more);
    show();
  }

  function enableCopy(button) {
    const command = button.previousElementSibling;
    button.hidden = false;
    button.setAttribute("aria-label", "copy this command");
    button.addEventListener("click", async () => {
      let feedback = "copied";
      try {
        await navigator.clipboard.writeText(command.textContent);
      } catch {
        getSelection().selectAllChildren(command);
        feedback = "selected";
      }
      button.textContent = feedback;
      setTimeout(() => (button.textContent = "copy"), COPY_FEEDBACK_MS);
    });
  }

  const narrow = matchMedia("(max-width: 40rem)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const [text, line] = ["--text", "--line"].map((name) => style.getPropertyValue(name).trim());
    const axis = { labelColor: text, titleColor: text, domainColor: text, tickColor: text, gridColor: line };
    const legend = { labelColor: text, titleColor: text, orient: narrow.matches ? "bottom" : "right", columns: narrow.matches ? 2 : 1 };
    return { background: "transparent", axis, legend, view: { stroke: line } };
  }

  function draw(container) {
    const spec = structuredClone(data.charts[container.dataset.chart]);
    Object.assign(spec, { width: "container", autosize: { type: "fit-x", contains: "padding" } });
    for (const { encoding } of spec.layer) {
      if (narrow.matches && encoding.y?.axis?.labelLimit) encoding.y.axis.labelLimit = NARROW_LABEL_WIDTH;
    }
    spec.config = { ...spec.config, ...theme() };
    // The page's policy forbids compiling code, so Vega interprets expressions (ast).
    const options = {
      mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false, logLevel: ERRORS_ONLY,
      tooltip: { disableDefaultStyle: true },
    };
    return vegaEmbed(container, spec, options).then(() => container.setAttribute("data-drawn", ""));
  }

  for (const container of document.querySelectorAll("[data-table]")) showTable(container, container.dataset.table);
  for (const button of document.querySelectorAll("button.copy")) enableCopy(button);
  const charts = [...document.querySelectorAll("[data-chart]")];
  const visibility = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        visibility.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "400px" });
  charts.forEach((container) => visibility.observe(container));
  for (const query of [dark, narrow]) {
    query.addEventListener("change", () => charts.filter((container) => "drawn" in container.dataset).forEach(draw));
  }
  // Before printing, draw the charts that have not been scrolled into view.
  addEventListener("beforeprint", () => charts.filter((container) => !("drawn" in container.dataset)).forEach(draw));
})();
