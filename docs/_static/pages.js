// The explorer's page inside a page is light or dark as the page around it.
(() => {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const wanted = () => {
    const theme = document.body.dataset.theme;
    return theme === 'light' || theme === 'dark' ? theme : dark.matches ? 'dark' : 'light';
  };
  const apply = () => {
    for (const frame of document.querySelectorAll('iframe.explorer')) frame.contentWindow?.postMessage({ theme: wanted() }, '*');
  };
  addEventListener('DOMContentLoaded', () => {
    for (const frame of document.querySelectorAll('iframe.explorer')) frame.addEventListener('load', apply);
    new MutationObserver(apply).observe(document.body, { attributes: true, attributeFilter: ['data-theme'] });
    dark.addEventListener('change', apply);
    apply();
  });
})();
