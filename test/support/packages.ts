/** Builds the packages that the tests of a lane install, once, with the commands of the documents. */
import { execFileSync } from 'node:child_process';

export default function setup(): void {
  execFileSync('npm', ['run', '--silent', 'client:build'], { stdio: 'inherit' });
  execFileSync('npm', ['run', '--silent', 'cli:build'], { stdio: 'inherit' });
}
