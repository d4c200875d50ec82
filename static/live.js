// live.js keeps a server-rendered page current over one event stream.
//
// Everything works without it: forms post, links load. Markup it understands:
//   <body data-live="/s/7/live" data-rev="e.42.7">  stream, and what is shown
//   <div id="page" data-session="7">                whose parts the page takes; "": the list's
//   data-in="parent" on a received element          where it goes when it is new
//   data-gone on a received element                 take the one of that id away
//   data-keep on an element                         the user's: never touched
//   data-title on an element                        the window's title
//   data-first="t3p16" on #earlier                  where the page begins
//   data-get="id" on a link                         fetch that element in its place
//   <time datetime>                                 shown as an age
//   <input name="seen">                             filled when a card was looked at
//   .end on an element                              the end of a text to be looked at
//   data-draft="id" on a form                       what is typed in it is kept
//   data-secret in it                               but for this
//   <input name="images">                           takes what is pasted beside it
//   data-copy="id" on a hidden button               shown where it can copy that field
(() => {
  'use strict';
  const doc = document;
  const byId = id => doc.getElementById(id);
  const on = (target, names, f) => names.split(' ').forEach(n => target.addEventListener(n, f));
  const page = doc.scrollingElement;
  const root = doc.documentElement;

  // ---- following the end ----

  const slack = 48; // px from the end that still count as being there
  const atEnd = () => page.scrollHeight - page.scrollTop - page.clientHeight < slack;
  const pill = byId('pill');
  let following;
  on(window, 'scroll load', () => {
    following = atEnd();
    if (following && pill) pill.hidden = true;
  });

  // ---- ages ----

  function ages() {
    for (const t of doc.querySelectorAll('time.age')) {
      const s = Math.max(0, Math.round((Date.now() - Date.parse(t.dateTime)) / 1000));
      const text = s < 5 ? 'just now'
        : (s < 60 ? s + ' s' : s < 3600 ? (s / 60 | 0) + ' m' : s < 86400 ? (s / 3600 | 0) + ' h' : (s / 86400 | 0) + ' d') + ' ago';
      if (t.textContent !== text) t.textContent = text;
    }
  }
  ages();
  setInterval(ages, 1000);

  // ---- copying ----

  for (const b of doc.querySelectorAll('[data-copy]')) {
    b.hidden = !navigator.clipboard;
    on(b, 'click', async () => {
      await navigator.clipboard.writeText(byId(b.dataset.copy).value);
      b.textContent = 'Copied';
    });
  }

  // ---- forms: still plain posts ----

  // Enter sends where there is a keyboard, and begins a line where there is not.
  on(doc, 'keydown', e => {
    const form = e.target.form;
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && form?.matches('.send:has(button)') && matchMedia('(pointer: fine)').matches) {
      e.preventDefault();
      form.requestSubmit();
    }
  });

  // An image that is pasted goes to those that are chosen.
  on(doc, 'paste', e => {
    const input = e.target.form?.elements.images, { files } = e.clipboardData;
    if (!input || !files.length) return;
    const all = new DataTransfer();
    for (const f of [...input.files, ...files]) all.items.add(f);
    input.files = all.files;
    input.closest('details').open = true;
  });

  // ---- answers: nothing is approved that was not looked at ----

  const still = 600; // ms that a card has to stand as it is before it can be approved
  const dock = byId('dock'), cards = new Map();
  const inView = new Set();
  const eye = new IntersectionObserver(list => list.forEach(e => inView[e.isIntersecting ? 'add' : 'delete'](e.target)));
  let woke = performance.now(), focused = 0;
  const wake = () => { woke = performance.now(); };
  const cardOf = el => el.closest('.card, main');

  // look notes which cards stand still, and which ends of texts were in view since.
  function look() {
    const now = performance.now();
    for (const el of new Set([...doc.querySelectorAll('.approve')].map(cardOf))) {
      let c = cards.get(el);
      if (!c) cards.set(el, c = { read: new Set() });
      const buttons = el.querySelectorAll('.approve'), { x, y } = buttons[0].getBoundingClientRect();
      if (c.x !== x || c.y !== y) Object.assign(c, { x, y, at: now });
      c.ready = now - Math.max(c.at, woke) >= still;
      c.seen = true;
      for (const end of el.querySelectorAll('.end')) {
        if (!end.checkVisibility()) continue; // what is about one answer opens with that
        eye.observe(end);
        if (c.ready && inView.has(end)) c.read.add(end);
        c.seen &&= c.read.has(end);
      }
      buttons.forEach(b => { b.ariaDisabled = c.ready ? null : 'true'; });
    }
  }
  look();
  setInterval(look, 100);
  on(window, 'focus pageshow', wake);
  on(doc, 'visibilitychange', wake);
  on(doc, 'focusin', () => { focused = performance.now(); });
  // say tells on a card why nothing was sent, until the next press or for a while.
  let hint, hush;
  function say(where, text) {
    clearTimeout(hush);
    if (hint) hint.textContent = '';
    hint = where;
    if (!hint) return;
    hint.textContent = text;
    hush = setTimeout(say, 6e3);
  }
  on(doc, 'click', e => {
    say();
    const button = e.target.closest('.approve');
    if (!button) return;
    look();
    const card = cardOf(button), c = cards.get(card), { seen } = button.form.elements;
    // A key that was pressed when the focus came is not meant for what has it now.
    if (!c.ready || !e.detail && performance.now() - focused < still) {
      e.preventDefault();
      say(card.querySelector('.hint'), 'Too soon after a change: nothing was sent. Press again.');
    } else if (seen) seen.value = c.seen ? 'yes' : '';
  });

  // ---- drafts: they outlive a reload, until their card ends ----

  const drafts = 'draft ' + location.pathname + ' ';
  const fields = form => [...form.elements].filter(f => f.name && !/hidden|password|submit/.test(f.type) && !f.closest('[data-secret]'));
  on(doc, 'input', ({ target: { form } }) => {
    if (form?.closest('.card'))
      sessionStorage[drafts + form.dataset.draft] = JSON.stringify(fields(form).map(f => [f.value, f.checked]));
  });
  function tidy() {
    for (const key of Object.keys(sessionStorage))
      if (key.startsWith(drafts) && !doc.querySelector(`[data-draft="${key.slice(drafts.length)}"]`)) sessionStorage.removeItem(key);
    for (const el of cards.keys()) if (!el.isConnected) cards.delete(el);
  }
  if (dock) {
    tidy();
    for (const form of dock.querySelectorAll('[data-draft]')) {
      const kept = JSON.parse(sessionStorage[drafts + form.dataset.draft] ?? '[]');
      fields(form).forEach((f, i) => {
        if (!kept[i]) return;
        const [value, checked] = kept[i];
        if (f.type === 'radio' || f.type === 'checkbox') f.checked = checked;
        else if (f.value !== value) {
          f.value = value;
          const around = f.closest('details');
          if (around) around.open = true;
        }
      });
    }
    new MutationObserver(list => {
      for (const { target } of list) {
        const el = target.parentElement && (target.nodeType === 1 ? target : target.parentElement);
        if (el && !el.closest('.more, .hint')) Object.assign(cards.get(cardOf(el)) ?? {}, { x: NaN, read: new Set() });
      }
      tidy();
      look();
    }).observe(dock, { childList: true, characterData: true, subtree: true });
  }

  // ---- applying parts ----

  // Under "require-trusted-types-for 'script'" only this policy may make HTML.
  const trusted = window.trustedTypes?.createPolicy('nod', { createHTML: s => s });
  function parse(html) {
    const t = doc.createElement('template');
    t.innerHTML = trusted ? trusted.createHTML(html) : html;
    return t.content;
  }

  let waiting = '', frame = 0;

  // The first parts show at once; what comes before the next frame shows with it.
  function receive(html) {
    waiting += html;
    if (!frame) apply();
  }

  function apply() {
    const height = page.scrollHeight;
    const sheet = doc.querySelector('.aside'), tall = sheet?.getBoundingClientRect().height, first = sheet?.querySelector('.card');
    const list = [], newest = new Map(); // id -> where in the list
    for (const el of parse(waiting).children) {
      if (el.querySelector('[id]')) newest.clear(); // what comes for its parts comes after it
      if (newest.has(el.id)) list[newest.get(el.id)] = el;
      else newest.set(el.id, list.push(el) - 1);
    }
    waiting = '';
    for (const el of list) {
      const old = byId(el.id), data = el.dataset;
      if ('gone' in data) old?.remove();
      else if (old) morph(old, el);
      else byId(data.in)?.append(el);
      if (data.title) doc.title = data.title;
    }
    // A sheet that stands on the bottom of a phone does not grow for a new card: it
    // would move the one that a finger is above.
    if (!first?.isConnected) sheet?.style.removeProperty('max-height');
    else if (sheet.getBoundingClientRect().height > tall) sheet.style.maxHeight = tall + 'px';
    ages();
    frame = requestAnimationFrame(() => {
      frame = 0;
      if (waiting) apply();
    });
    if (following) {
      trim();
      if (pill) page.scrollTop = page.scrollHeight;
    } else if (pill && page.scrollHeight > height) pill.hidden = false;
  }

  // morph makes a equal to b and touches nothing that is equal already, so
  // focus, selection, scroll and typed text survive outside the difference.
  function morph(a, b) {
    if (a.isEqualNode(b)) return a;
    if (a.nodeName !== b.nodeName || a.id !== b.id) {
      a.replaceWith(b);
      return b;
    }
    if (a.nodeType !== 1) {
      if (b.data.startsWith(a.data)) a.appendData(b.data.slice(a.data.length));
      else a.data = b.data;
      return a;
    }
    const mine = a.dataset;
    if ('keep' in mine) return a;
    // What the user has opened or closed stays so until the server changes its mind.
    if (mine.open !== b.dataset.open) a.open = b.open;
    for (const { name } of [...a.attributes])
      if (name !== 'open' && !b.hasAttribute(name)) a.removeAttribute(name);
    for (const { name, value } of b.attributes)
      if (name !== 'open' && a.getAttribute(name) !== value) a.setAttribute(name, value);
    // Elements that are gone go first, so that none that stays has to move.
    const ids = new Set([...b.children].map(n => n.id));
    for (const child of [...a.children])
      if (child.id && !ids.has(child.id)) child.remove();

    let at = a.firstChild;
    for (const n of [...b.childNodes]) {
      let m = at;
      if (n.id) {
        m = byId(n.id);
        if (m?.parentNode !== a) m = null;
      } else if (m && (m.id || m.nodeName !== n.nodeName)) m = null;
      if (!m) a.insertBefore(n, at);
      else if (m === at) at = morph(m, n).nextSibling;
      else {
        a.insertBefore(m, at);
        morph(m, n);
      }
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
    return a;
  }

  // ---- what is not on the page ----

  // trim takes off what lies before the begin of the page.
  function trim() {
    const first = byId(byId('earlier')?.dataset.first);
    if (!first) return;
    doc.querySelectorAll('.earlier[id=""]').forEach(el => el.remove());
    for (const el of [first, first.closest('.turn')])
      while (el.previousElementSibling) el.previousElementSibling.remove();
  }

  on(doc, 'click', async e => {
    const link = e.target.closest('a[data-get]');
    if (!link || e.ctrlKey || e.metaKey || e.shiftKey) return;
    e.preventDefault();
    try {
      const got = parse(await (await fetch(link)).text()), id = link.dataset.get;
      const el = got.getElementById(id);
      if (id === 'earlier') return earlier(got, el, link.parentNode);
      el.dataset.keep = '';
      byId(id).replaceWith(el);
    } catch { location = link; }
  });

  // earlier puts older turns before those that are here, which stay where they
  // are on the screen. The row above them is not the page's own, which waits behind
  // it, unseen, until the reader is at the end again.
  function earlier(got, row, old) {
    const turns = byId('turns'), first = turns.firstElementChild;
    const was = first.getBoundingClientRect().bottom;
    root.style.overflowAnchor = 'none'; // we see to it ourselves
    row.id = '';
    old.before(row);
    for (const turn of [...got.getElementById('turns').children]) {
      const here = byId(turn.id);
      if (!here) turns.insertBefore(turn, first);
      else {
        const into = byId(turn.id + 'b'), before = into.firstElementChild;
        for (const part of [...got.getElementById(into.id).children])
          if (!byId(part.id)) into.insertBefore(part, before);
      }
    }
    page.scrollTop += first.getBoundingClientRect().bottom - was;
    requestAnimationFrame(() => { root.style.overflowAnchor = ''; });
  }

  // ---- the connection ----

  const { live } = doc.body.dataset;
  if (!live) return;
  const banner = byId('offline');
  const session = byId('page').dataset.session;
  let { rev } = doc.body.dataset, source, heard, tries = 0, timer, telling;

  function lost() {
    telling ||= setTimeout(() => { banner.hidden = false; }, 3e3); // most come back sooner
  }

  function open() {
    if (source || doc.hidden) return;
    timer = clearTimeout(timer);
    heard = Date.now();
    const s = source = new EventSource(live + '?since=' + rev);
    const hear = f => e => {
      if (s !== source) return;
      heard = Date.now();
      rev = e.lastEventId;
      clearTimeout(telling);
      telling = tries = 0;
      banner.hidden = true;
      f?.(e.data);
    };
    on(s, 'hello beat bye', hear());
    on(s, 'parts-' + session, hear(receive));
    on(s, 'gone', hear(() => { close(); location.reload(); }));
    s.onerror = () => {
      if (s !== source) return;
      lost();
      if (s.readyState === 2) { // an answer other than 200 is final for an EventSource
        again();
        if (tries > 1) fetch(live.replace(/\/live$/, '')).then(r => { if (r.status === 404) location.reload(); }, () => {}); // the page is gone, too
      }
    };
  }

  function close() {
    timer = clearTimeout(timer);
    source?.close();
    source = null;
  }

  function again() {
    close();
    timer = setTimeout(open, Math.min(30e3, 500 * 2 ** tries++) * (.7 + .6 * Math.random()));
  }

  // A phone suspends connections without an error event: drop ours when hidden
  // (that also frees one of HTTP/1.1's six), and take silence for death.
  on(doc, 'visibilitychange', () => doc.hidden ? close() : open());
  on(window, 'pagehide', close);
  on(window, 'pageshow', open);
  on(window, 'online', () => { close(); open(); });
  on(window, 'offline', lost);
  setInterval(() => {
    if (!source) timer || open(); // a phone may tell that the page goes, and not that it is back
    else if (Date.now() - heard > 40e3) { lost(); again(); } // more than two beats are missing
  }, 5e3);
  open();
})();
