/** The words about a file that is mounted by itself and was replaced outside the container. The page has them too. */

/** Says why a file that was replaced can't be read, and what to do about it. */
export const replaced = (file: string) => ({
  message: `${file} was replaced outside the container, and its new content can't be read inside`,
  action: "mount the directory, or restart the container",
})
