/** Files that the bundler takes besides modules. */
declare module '*.css';
declare module '*.svg' {
  const url: string;
  export default url;
}
