/** Buying and selling by word and tone. */
export function Side({ side }: { readonly side: 'BUY' | 'SELL' }) {
  return <span class={`side ${side === 'BUY' ? 'gain' : 'loss'}`}>{side}</span>;
}
