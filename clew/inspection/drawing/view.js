// Reads values off the pictures of a view: at a pointer, and by the arrow keys. Knows no server and no view; the page and saved documents share it.
export function enliven(root) {
}
