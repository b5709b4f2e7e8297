// Opens the viewer with the OpenAPI document. Its samples and its list of servers show the address of this host.
const place = document.getElementById('reference');
// On the machine of the service, the page has a key.
const page = await fetch('/', { headers: { Accept: 'text/html' } }).then((answer) => answer.text());
const parsed = new DOMParser().parseFromString(page, 'text/html');
const value = parsed.querySelector('meta[name=page-key]')?.content ?? '';
// Only this version describes the events of streams.
const response = await fetch('/openapi-3.2.json');
if (response.ok) {
  const text = await response.text();
  globalThis.Scalar.createApiReference(place, {
    content: text.replaceAll(place.dataset.placeholder, location.origin),
    servers: [{ url: location.origin }],
    authentication: { preferredSecurityScheme: 'key', securitySchemes: { key: { value } } },
    theme: 'none',
    withDefaultFonts: false,
    telemetry: false,
    agent: { disabled: true },
    mcp: { disabled: true },
    hideClientButton: true,
    showDeveloperTools: 'never',
    // The header links it.
    documentDownloadType: 'none',
  });
} else {
  place.textContent = `The OpenAPI document cannot be loaded (status ${response.status}). Reload this page in a moment.`;
}
