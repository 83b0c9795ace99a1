/* Pages that are opened as files may not start workers: the search runs in a hidden frame instead. */
(function () {
  "use strict";
  if (location.protocol !== "file:") return;

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
      const script = this.inner.document.createElement("script");
      script.src = String(url);
      script.onload = () => {
        this.ready = true;
        for (const data of this.waiting.splice(0)) this.postMessage(data);
      };
      this.inner.document.body.appendChild(script);
    }

    postMessage(data) {
      if (!this.ready) {
        this.waiting.push(data);
        return;
      }
      const copy = this.inner.structuredClone(data);
      this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data: copy }));
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
})();
