"use strict";
// Updates without reloading, and copy buttons. Without scripts every page shows the state at the time of the request.
(() => {
  const say = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };

  // Gives an element other contents. What is equal stays the same element, so that it keeps the focus, a selection, and
  // how far it was scrolled.
  const renew = (element, html) => {
    const made = element.cloneNode(false);
    made.innerHTML = html;
    align(element, made);
  };
  const align = (old, now) => {
    if (old.isEqualNode(now)) return;
    // A link with another text is another link: the focus on the one before does not pass to it.
    const isOther = old.nodeName !== now.nodeName
      || (/^(A|BUTTON)$/.test(old.nodeName) && old.textContent !== now.textContent);
    if (isOther || !(old instanceof HTMLElement)) {
      old.replaceWith(now);
      return;
    }
    for (const name of old.getAttributeNames()) if (!now.hasAttribute(name)) old.removeAttribute(name);
    for (const name of now.getAttributeNames()) {
      if (old.getAttribute(name) !== now.getAttribute(name)) old.setAttribute(name, now.getAttribute(name));
    }
    const before = [...old.childNodes], after = [...now.childNodes];
    for (const child of before.slice(after.length)) child.remove();
    for (const [place, child] of after.entries()) {
      if (place < before.length) align(before[place], child); else old.append(child);
    }
  };

  for (const button of document.querySelectorAll("button.copy")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code").textContent;
      await navigator.clipboard.writeText(text);
      button.firstChild.textContent = "Copied";
      setTimeout(() => { button.firstChild.textContent = "Copy"; }, 2000);
    });
  }

  // The list is shown first; its answers are filled in as they are read.
  const rows = document.querySelector("[data-rows]");
  if (rows) {
    const fill = async () => {
      const answer = await fetch(rows.dataset.rows).then((response) => response.json()).catch(() => null);
      if (answer) {
        const chosen = new Set([...rows.querySelectorAll("input:checked")].map((box) => box.value));
        const focused = rows.contains(document.activeElement) ? document.activeElement : null;
        if (!focused) {
          rows.innerHTML = answer.rows;
          for (const box of rows.querySelectorAll("input")) box.checked = chosen.has(box.value);
        }
        if (!answer.reading && !focused) {
          say(document.getElementById("count"), `${answer.count} ${answer.count === 1 ? "run" : "runs"}`);
          return;
        }
      }
      setTimeout(fill, 700);
    };
    setTimeout(fill, 400);
  }

  // A run in progress: fetched again while the page is visible.
  const progress = document.querySelector("[data-progress]");
  if (progress) {
    const status = document.getElementById("heard");
    let seen = "", heard = new Date();
    const ask = () => fetch(progress.dataset.progress, { signal: AbortSignal.timeout(30000) })
      .then((response) => response.ok ? response.json() : null).catch(() => null);
    const follow = async () => {
      if (!document.hidden) {
        const answer = await ask();
        if (answer) heard = new Date();
        const from = heard.toLocaleString();
        say(status, answer ? "" : `no answer now; the last one came at ${from}, and what is shown is from then`);
        if (answer) {
          if (seen !== answer.html) renew(progress, seen = answer.html);
          if (answer.finished) { document.getElementById("asking")?.remove(); return; }
        }
      }
      setTimeout(follow, 3000);
    };
    setTimeout(follow, 3000);
  }

  // A watched server: each part of the page is replaced when it has changed.
  const live = document.querySelector("[data-events]");
  if (live) {
    const status = document.getElementById("connection");
    const pause = document.getElementById("pause");
    let source = null, timer = null, isPaused = false, lost = null;
    const close = () => { clearTimeout(timer); if (source) source.close(); };
    // Browsers allow six connections to a host: a tab that nobody sees keeps none, and asks now and then for its title.
    const rest = () => { close(); timer = setTimeout(open, 15000); };
    const open = () => {
      close();
      source = new EventSource(live.dataset.events);
      source.onopen = () => { lost = null; say(status, "live"); };
      source.onmessage = (message) => {
        const told = JSON.parse(message.data);
        // The page has elements for what there was when it was loaded: with other parts it is loaded anew.
        const isKnown = (id) => document.getElementById(id) !== null;
        const isGone = (part) => !told.ids.includes(part.id);
        if (!told.ids.every(isKnown) || [...live.querySelectorAll("figure[id^=plot-], #part-sizes")].some(isGone)) {
          location.reload();
          return;
        }
        if (told.title) document.title = told.title;
        for (const [id, html] of Object.entries(told.parts)) renew(document.getElementById(id), html);
        if (document.hidden) rest();
      };
      source.onerror = () => {
        lost = lost || new Date();
        say(status, `connection lost at ${lost.toLocaleTimeString()}; what is shown is from before that`);
        if (source.readyState === EventSource.CLOSED && !isPaused) timer = setTimeout(open, 3000);
      };
    };
    document.addEventListener("visibilitychange", () => {
      if (!isPaused) (document.hidden ? rest : open)();
    });
    if (pause) {
      pause.hidden = false;
      pause.addEventListener("click", () => {
        isPaused = !isPaused;
        say(pause, isPaused ? "Continue" : "Pause");
        if (isPaused) { close(); say(status, `paused at ${new Date().toLocaleTimeString()}`); } else open();
      });
    }
    open();
  }
})();
