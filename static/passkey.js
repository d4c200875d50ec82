// passkey.js has the browser use or make a passkey before a form is sent. Markup:
//   <input data-assert="JSON">  filled with what a passkey has signed
//   <input data-create="JSON">  filled with a new passkey
//   <p data-passkey-problem>    shown when that came to nothing
(() => {
  'use strict';
  for (const field of document.querySelectorAll('[data-assert], [data-create]')) {
    const { form } = field, { assert, create } = field.dataset;
    const says = form.querySelector('[data-passkey-problem]');
    form.addEventListener('submit', async e => {
      // A denial or a code needs no passkey, nor does what is sent without this part.
      if (field.value || field.matches(':disabled') || form.elements.code?.value || e.submitter?.formNoValidate) return;
      e.preventDefault();
      says.hidden = true;
      try {
        const P = PublicKeyCredential;
        const made = await (assert
          ? navigator.credentials.get({ publicKey: P.parseRequestOptionsFromJSON(JSON.parse(assert)) })
          : navigator.credentials.create({ publicKey: P.parseCreationOptionsFromJSON(JSON.parse(create)) }));
        field.value = JSON.stringify(made);
        form.requestSubmit(e.submitter);
      } catch {
        says.hidden = false;
      }
    });
  }
})();
