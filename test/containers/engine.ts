/**
 * Whether a container engine answers here. Where none does, the container suite is skipped: counted as
 * such, with the reason in one line.
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
