// login.js takes the token out of the address, where nobody but this page ever
// sees it, and posts it.
(() => {
  'use strict';
  const key = /^#k=(.+)$/.exec(location.hash);
  const form = document.getElementById('login');
  if (!key || !form) return;
  history.replaceState(null, '', location.pathname);
  form.elements.token.value = key[1];
  form.requestSubmit();
})();
