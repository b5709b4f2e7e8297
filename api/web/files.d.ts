/** Files other than modules that the bundler accepts. */
declare module '*.css';
declare module '*.svg' {
  const url: string;
  export default url;
}
