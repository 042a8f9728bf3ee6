// The data of a page that stands alone: blocks of this file, gzip in base64, unpacked when somebody looks.

async function unpack(id) {
  const packed = atob(byId(id).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const store = {
  index: () => unpack("index"),
  page: (k) => unpack("page-" + k),
  search: null, // the page looks through its own blocks
};
