// The data of a page that `apportion view --serve` shows: asked from the server that sent the page, a page at a time.

async function ask(path) {
  const answer = await fetch(path, { credentials: "omit", cache: "no-store", redirect: "error" });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}; is apportion view --serve still running?`);
  return answer.json();
}

const store = {
  index: () => ask("data/index"),
  page: (k) => ask("data/page/" + k),
  search: (query) => ask("data/search?q=" + encodeURIComponent(query)),
};
