/** Whether all data comes from the development chain. Then nothing links to other sites, which do not know it. */
export const isSimulated =
  document.querySelector<HTMLMetaElement>('meta[name=simulated]')?.content === 'yes';
