/**
 * Whether a container engine is available. Without one, the container suite is skipped with the reason in one
 * line.
 */
import { getContainerRuntimeClient } from 'testcontainers';

export async function missingEngine(): Promise<string | undefined> {
  try {
    await getContainerRuntimeClient();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
