/* Search on a site that is opened from a file: browsers refuse workers there, so the worker's script runs in a hidden
   frame and is handed messages. Served over http, nothing is replaced. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.onmessage = null
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = (this.inside = frame.contentWindow)
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data })
        if (this.onmessage) this.onmessage(event)
        this.dispatchEvent(event)
      }
      inside.importScripts = () => Promise.resolve()
      const script = inside.document.createElement("script")
      script.src = new URL(url, document.baseURI)
      script.onload = () => {
        const waiting = this.waiting
        this.waiting = null
        for (const data of waiting) this.hand(data)
      }
      inside.document.body.append(script)
      this.frame = frame
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.hand(data)
    }
    hand(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
