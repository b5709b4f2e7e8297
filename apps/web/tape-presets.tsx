/** Filter presets of the tape: built-in ones, and those that the user saved in the browser. */
import { query, setQuery } from './route.ts';
import { storedList } from './stored.ts';

type Filters = Readonly<Record<string, string>>;
type Preset = { readonly title: string; readonly filters: Filters };

const USUAL: readonly Preset[] = [
  { title: 'All', filters: {} },
  { title: 'Large: 100 USDC or more', filters: { min_usdc: '100' } },
  { title: 'Whales: 1,000 or more', filters: { min_usdc: '1000' } },
  { title: 'Long shots: 10¢ or less', filters: { max_price: '10' } },
  { title: 'Favourites: 90¢ or more', filters: { min_price: '90' } },
];
const SAVED_MAX = 12;

const saved = storedList<Preset>('presets', { isEntry: isPreset, max: SAVED_MAX });

/** `names` are the query parameters of filters; `title` is the name for saving the current ones. */
export function TapePresets(props: { readonly names: readonly string[]; readonly title: string }) {
  const given = query.value;
  const now: Filters = Object.fromEntries(
    props.names.flatMap((name) => {
      const value = given.get(name) ?? '';
      return value === '' ? [] : [[name, value]];
    }),
  );
  const all = [...USUAL, ...saved.list.value];
  const current = all.find(({ filters }) => isSame(filters, now));
  function choose(filters: Filters): void {
    setQuery({ ...Object.fromEntries(props.names.map((name) => [name, ''])), ...filters });
  }
  return (
    <fieldset class="presets">
      <legend class="hidden">Presets</legend>
      {all.map((preset) => (
        <span key={preset.title}>
          <button
            type="button"
            class="chip"
            aria-pressed={preset === current}
            onClick={() => choose(preset.filters)}
          >
            {preset.title}
          </button>
          {USUAL.includes(preset) ? null : (
            <button
              type="button"
              class="chip drop"
              aria-label={`Forget ${preset.title}`}
              title="Forget this preset"
              onClick={() => saved.set(saved.list.value.filter((one) => one !== preset))}
            >
              ×
            </button>
          )}
        </span>
      ))}
      {current === undefined ? (
        <button
          type="button"
          class="chip save"
          onClick={() =>
            saved.set([...saved.list.value, { title: freeTitle(props.title, all), filters: now }])
          }
        >
          + Save these filters
        </button>
      ) : null}
    </fieldset>
  );
}

/** Titles shorten long values, so that two different filters can have the same one. */
function freeTitle(title: string, taken: readonly Preset[]): string {
  let free = title;
  for (let n = 2; taken.some((preset) => preset.title === free); n += 1) free = `${title} (${n})`;
  return free;
}

function isSame(one: Filters, other: Filters): boolean {
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length && names.every((name) => one[name] === other[name])
  );
}

function isPreset(one: unknown): one is Preset {
  if (!(one instanceof Object && 'title' in one && 'filters' in one)) return false;
  const { title, filters } = one;
  return (
    typeof title === 'string' &&
    filters instanceof Object &&
    Object.values(filters).every((value) => typeof value === 'string')
  );
}
