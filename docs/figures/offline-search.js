// Browsers start no workers for pages that are opened from disk. There, run the search of the theme in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.setAttribute("aria-hidden", "true");
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const load = (address) =>
        new Promise((done, fail) => {
          const script = inside.document.createElement("script");
          script.src = address;
          script.onload = done;
          script.onerror = () => fail(new Error(`cannot load ${address}`));
          inside.document.head.append(script);
        });
      const home = new URL(url, location);
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(new URL(address, home).href)), Promise.resolve());
      inside.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      load(home.href).then(() => {
        const send = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
        this.waiting.forEach(send);
        this.postMessage = send;
      });
    }
    postMessage(data) {
      this.waiting.push(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
