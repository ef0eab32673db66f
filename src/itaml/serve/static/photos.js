// Take photos from a drop, the clipboard or a file chooser as {file, folder}: the name of the folder that held it.

const SUFFIX = /\.(jpe?g|jfif|png|gif|webp|bmp|tiff?|heic|heif|avif|ppm|pgm|ico)$/i;
const HIDDEN = /^(\.|thumbs\.db$|desktop\.ini$|__macosx$)/i;

const isImage = (file) => file.type.startsWith("image/") || SUFFIX.test(file.name);

/** Return the images among `files`, in order, and how many other files there were. */
function sorted(files) {
  const seen = files.filter(({ file }) => !HIDDEN.test(file.name));
  const photos = seen.filter(({ file }) => isImage(file));
  return { photos, others: seen.length - photos.length };
}

/** Return photos of a file input; one that chooses folders gives each file its folder. */
export function fromInput(input) {
  const files = [...input.files].map((file) => {
    const parts = (file.webkitRelativePath ?? "").split("/");
    return { file, folder: parts.length > 1 ? parts.at(-2) : null };
  });
  input.value = ""; // so that the same file can be chosen again
  return sorted(files);
}

/** Return photos of a paste; null if it holds none, so that text can be pasted as ever. */
export function fromPaste(event) {
  const files = [...(event.clipboardData?.files ?? [])].filter(isImage);
  return files.length ? sorted(files.map((file) => ({ file, folder: null }))) : null;
}

/** Return photos of a drop; folders are read as deep as they go. */
export async function fromDrop(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  // before the first await, because the items expire
  const entries = items.map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const files = [];
  for (const entry of entries) {
    if (entry instanceof File) files.push({ file: entry, folder: null });
    else if (entry) await walk(entry, null, files);
  }
  return sorted(files);
}

async function walk(entry, folder, files) {
  if (HIDDEN.test(entry.name)) return;
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject)).catch(() => null);
    if (file) files.push({ file, folder });
    return;
  }
  for (const child of await children(entry)) await walk(child, entry.name, files);
}

async function children(folder) {
  const reader = folder.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // at most 100 at a time
    if (!some.length) return found.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    found.push(...some);
  }
}

/** Return ids of files whose bytes equal those of an earlier one, as a map to the earlier one. */
export async function equalFiles(records) {
  const sizes = Map.groupBy ? Map.groupBy(records, (one) => one.blob.size) : grouped(records);
  const found = new Map();
  for (const same of sizes.values()) {
    const firsts = [];
    for (const record of same.length > 1 ? same : []) {
      const bytes = new Uint8Array(await record.blob.arrayBuffer());
      const twin = firsts.find((first) => first.bytes.every((byte, place) => byte === bytes[place]));
      if (twin) found.set(record.id, twin.record);
      else firsts.push({ record, bytes });
    }
  }
  return found;
}

function grouped(records) {
  const sizes = new Map();
  for (const record of records) sizes.set(record.blob.size, [...(sizes.get(record.blob.size) ?? []), record]);
  return sizes;
}
