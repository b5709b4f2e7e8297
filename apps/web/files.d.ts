/** Non-module files that the bundler accepts. */
declare module '*.css';
declare module '*.svg' {
  const url: string;
  export default url;
}
