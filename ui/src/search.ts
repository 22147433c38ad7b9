/** How the search box's text matches names. */

/** `/text/` is a regular expression, anything else a substring. Both ignore case. */
export function matcher(text: string): ((name: string) => boolean) | { error: string } | null {
  if (text === "") return null;
  const expression = /^\/(.+)\/?$/.exec(
    text.endsWith("/") && text.length > 1 ? text.slice(0, -1) : text,
  )?.[1];
  if (text.startsWith("/") && expression) {
    try {
      const regex = new RegExp(expression, "i");
      return (name) => regex.test(name);
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error) };
    }
  }
  const low = text.toLowerCase();
  return (name) => name.toLowerCase().includes(low);
}
