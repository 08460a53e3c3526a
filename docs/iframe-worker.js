// Search without a server. Browsers start no workers from files, so on pages that are opened as files the search's
// worker runs in a hidden frame: what is posted to the worker becomes an event there, and its answers events here.
// The theme's offline plugin looks for a script of this name, and would else load one from the network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.documentElement.append(frame);
      this.inside = frame.contentWindow;
      const page = this.inside.document;
      page.open();
      page.write("<!doctype html><title>search</title>");
      page.close();
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...addresses) =>
        Promise.all(addresses.map((each) => this.load(page, each)));
      this.load(page, address).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    load(page, address) {
      return new Promise((done, failed) => {
        const script = page.createElement("script");
        script.src = address;
        script.onload = done;
        script.onerror = failed;
        page.head.append(script);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
  };
}
