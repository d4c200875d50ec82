// live.js keeps a server-rendered page current over one event stream.
//
// Everything works without it: forms post, links load. Markup it understands:
//   <body data-live="/s/7/live" data-rev="e.42.7">  stream, and what is shown
//   data-in="parent" on a received element          where it goes when it is new
//   data-keep on an element                         the user's: never touched
//   data-title on an element                        the window's title
//   <time datetime>                                 shown as an age
//   <input name="seen">                             filled when a person answers here
(() => {
  'use strict';
  const byId = id => document.getElementById(id);
  const page = document.scrollingElement;
  const banner = byId('offline');

  // ---- following the end ----

  const slack = 48; // px from the end that still count as being there
  const endsAt = () => page.scrollHeight - page.scrollTop - page.clientHeight;
  const pill = () => byId('pill');
  let following = endsAt() < slack;
  const follow = () => {
    if (!pill()) return;
    page.scrollTop = page.scrollHeight;
  };
  addEventListener('scroll', () => {
    following = endsAt() < slack;
    if (following && pill()) pill().hidden = true;
  }, { passive: true });

  // ---- ages ----

  function ages() {
    const now = Date.now();
    for (const t of document.querySelectorAll('time.age')) {
      const s = Math.max(0, Math.round((now - Date.parse(t.dateTime)) / 1000));
      const text = s < 5 ? 'just now' : s < 60 ? `${s} s ago` : s < 3600 ? `${Math.floor(s / 60)} m ago`
        : s < 86400 ? `${Math.floor(s / 3600)} h ago` : `${Math.floor(s / 86400)} d ago`;
      if (t.textContent !== text) t.textContent = text;
    }
  }
  ages();
  setInterval(ages, 1000);

  // ---- forms: still plain posts ----

  document.addEventListener('submit', e => {
    const seen = e.target.elements.seen;
    if (seen) seen.value = 'yes';
  });
  // Enter sends where there is a keyboard, and begins a line where there is not.
  document.addEventListener('keydown', e => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing || !e.target.matches('.send textarea')) return;
    if (!matchMedia('(pointer: fine)').matches || !e.target.form.querySelector('button')) return;
    e.preventDefault();
    e.target.form.requestSubmit();
  });

  // ---- applying parts ----

  // Under "require-trusted-types-for 'script'" only this policy may make HTML.
  const trusted = window.trustedTypes?.createPolicy('nod', { createHTML: s => s }) ?? { createHTML: s => s };
  const waiting = new Map(); // id -> newest element, applied once per frame
  let frame = 0;

  function receive(html) {
    const t = document.createElement('template');
    t.innerHTML = trusted.createHTML(html);
    for (const el of t.content.children) waiting.set(el.id, el); // keeps the place of the first
    frame ||= requestAnimationFrame(apply);
  }

  function apply() {
    frame = 0;
    const grew = page.scrollHeight;
    for (const el of waiting.values()) {
      const old = byId(el.id);
      if (old) morph(old, el);
      else byId(el.dataset.in)?.append(el);
      if (el.dataset.title && document.title !== el.dataset.title) document.title = el.dataset.title;
    }
    waiting.clear();
    ages();
    if (following) follow();
    else if (pill() && page.scrollHeight > grew) pill().hidden = false;
  }

  // morph makes a equal to b and touches nothing that is equal already, so
  // focus, selection, scroll and typed text survive outside the difference.
  function morph(a, b) {
    if (a.isEqualNode(b)) return a;
    if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName || a.id !== b.id) {
      a.replaceWith(b);
      return b;
    }
    if (a.nodeType !== Node.ELEMENT_NODE) {
      if (b.data.startsWith(a.data)) a.appendData(b.data.slice(a.data.length));
      else a.data = b.data;
      return a;
    }
    if ('keep' in a.dataset) return a;
    // What the user has opened or closed stays so until the server changes its mind.
    const details = a.localName === 'details';
    if (details && a.dataset.open !== b.dataset.open) a.open = b.open;
    const theirs = name => details && name === 'open' || a.id === 'pill' && name === 'hidden';
    for (const { name } of [...a.attributes])
      if (!b.hasAttribute(name) && !theirs(name)) a.removeAttribute(name);
    for (const { name, value } of b.attributes)
      if (a.getAttribute(name) !== value && !theirs(name)) a.setAttribute(name, value);
    // Elements that are gone go first, so that none that stays has to move.
    for (const child of [...a.children])
      if (child.id && ![...b.children].some(n => n.id === child.id)) child.remove();

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
        a.moveBefore ? a.moveBefore(m, at) : a.insertBefore(m, at);
        morph(m, n);
      }
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
    return a;
  }

  // ---- the connection ----

  const url = document.body.dataset.live;
  if (!url || !window.EventSource) return;
  const watchdog = 40e3; // ms without a beat after which a connection is dead
  const patience = 3e3;  // ms before a person is told
  let rev = document.body.dataset.rev, source, heard = 0, tries = 0, timer, telling;

  function lost() {
    telling ||= setTimeout(() => { banner.hidden = false; }, patience);
  }
  function well() {
    clearTimeout(telling);
    telling = 0;
    banner.hidden = true;
    tries = 0;
  }

  function open() {
    if (source || document.visibilityState === 'hidden') return;
    clearTimeout(timer);
    heard = Date.now();
    const from = new URL(url, location);
    from.searchParams.set('since', rev);
    const s = source = new EventSource(from);
    const on = (name, f) => s.addEventListener(name, e => {
      if (s !== source) return;
      heard = Date.now();
      rev = e.lastEventId || rev;
      well();
      f?.(e.data);
    });
    on('hello');
    on('beat');
    on('bye');
    on('gone', () => { close(); location.reload(); });
    on('parts', receive);
    s.onerror = () => {
      if (s !== source) return;
      lost();
      if (s.readyState === EventSource.CLOSED) again(); // a non-200 answer is final for EventSource
    };
  }

  function close() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  function again() {
    close();
    timer = setTimeout(open, Math.min(30e3, 500 * 2 ** tries++) * (0.7 + 0.6 * Math.random()));
  }

  // A phone suspends connections without an error event: drop ours when hidden
  // (that also frees one of HTTP/1.1's six), and take silence for death.
  document.addEventListener('visibilitychange', () => document.hidden ? close() : open());
  addEventListener('pagehide', close);
  addEventListener('pageshow', open);
  addEventListener('online', () => { close(); open(); });
  addEventListener('offline', lost);
  setInterval(() => { if (source && Date.now() - heard > watchdog) { lost(); again(); } }, 5e3);
  open();
})();
