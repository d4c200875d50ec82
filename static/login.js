// login.js takes the token out of the address, where nobody but this page ever
// sees it, and posts it.
(() => {
  'use strict';
  const form = document.getElementById('login');
  const take = () => {
    const key = /^#k=(.+)$/.exec(location.hash);
    if (!key || !form) return;
    history.replaceState(null, '', location.pathname);
    form.elements.token.value = key[1];
    form.requestSubmit();
  };
  take();
  addEventListener('hashchange', take); // a link that is opened where the page is already
})();
