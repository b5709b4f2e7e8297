/** The request behind a view as a program, and its list as a CSV file. */
import { useRef, useState } from 'preact/hooks';
import { Choice, CopyButton } from './controls.tsx';
import { key } from './key.ts';
import { type Request, samplesOf } from './samples.ts';

export function InCode({ request }: { readonly request: Request }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [language, setLanguage] = useState('curl');
  const samples = samplesOf(location.origin, request);
  const text = samples[language] ?? '';
  return (
    <>
      <button type="button" class="quiet" onClick={() => dialog.current?.showModal()}>
        Use in code
      </button>
      <dialog ref={dialog} class="card in-code" aria-label="Use in code">
        <div class="section-head">
          <Choice
            name="language"
            legend="Language"
            choices={Object.keys(samples).map((name) => [name, name])}
            chosen={language}
            onChoose={setLanguage}
          />
          <CopyButton text={text} what="the program" />
          <form method="dialog" class="push">
            <button type="submit">Close</button>
          </form>
        </div>
        <pre>
          <code>{text}</code>
        </pre>
        <p class="soft">
          FILLSTREAM_KEY holds your key. The <a href="/docs/quick-start">quick start</a> installs
          the clients.
        </p>
      </dialog>
    </>
  );
}

/** Downloads the list at this path of the API. */
export function CsvButton({ path, name }: { readonly path: string; readonly name: string }) {
  const [state, setState] = useState<'' | 'loading' | 'failed'>('');
  async function download(): Promise<void> {
    setState('loading');
    const headers = { Accept: 'text/csv', ...(key.value !== '' && { 'X-Service-Key': key.value }) };
    const response = await fetch(path, { headers }).catch(() => undefined);
    if (response === undefined || !response.ok) {
      setState('failed');
      return;
    }
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await response.blob());
    link.download = `${name}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
    setState('');
  }
  return (
    <button
      type="button"
      class="quiet"
      title="Download this list as CSV"
      disabled={state === 'loading'}
      onClick={() => void download()}
    >
      CSV{state === 'failed' ? ': not available' : ''}
    </button>
  );
}

/** Both, for a list that is the answer of one request. */
export function ListTools({ name, path }: { readonly name: string; readonly path: string }) {
  return (
    <span class="push list-tools">
      <CsvButton name={name} path={path} />
      <InCode request={{ path, call: callOf(path) }} />
    </span>
  );
}

/** The call of the TypeScript client for a path that has a query. */
function callOf(path: string): string {
  return `request('GET', ${JSON.stringify(path)})`;
}
