/** The standard health service: for the process ("") and for PolicyService by its name. */

import {
  status,
  type sendUnaryData,
  type Server,
  type ServerUnaryCall,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import { service } from 'grpc-health-check';

/** The services whose health is known. */
const SERVICES = ['', 'extender.policy.v1beta1.PolicyService'];

interface Request {
  readonly service: string;
}

interface Response {
  readonly status: 'SERVING' | 'NOT_SERVING' | 'SERVICE_UNKNOWN';
}

type Watch = ServerWritableStream<Request, Response>;

/** The health of the server. */
export class Health {
  isServing = true;
  private readonly watches = new Set<Watch>();

  /** Serves it. */
  addTo(server: Server): void {
    server.addService(service, {
      check: (call: ServerUnaryCall<Request, Response>, answer: sendUnaryData<Response>) => {
        const name = call.request.service;
        if (SERVICES.includes(name)) {
          answer(null, this.response(name));
        } else {
          answer({ code: status.NOT_FOUND, details: `service ${name} is not known` });
        }
      },
      watch: (call: Watch) => {
        this.watches.add(call);
        call.on('cancelled', () => {
          this.watches.delete(call);
        });
        call.write(this.response(call.request.service));
        if (!this.isServing) {
          call.end();
        }
      },
      list: (_: unknown, answer: sendUnaryData<{ statuses: Record<string, Response> }>) => {
        answer(null, { statuses: Object.fromEntries(SERVICES.map((name) => [name, this.response(name)])) });
      },
    });
  }

  /** Watchers get NOT_SERVING, and then the end of their stream: an open one would delay draining. */
  stop(): void {
    this.isServing = false;
    for (const call of this.watches) {
      call.write(this.response(call.request.service));
      call.end();
    }
    this.watches.clear();
  }

  private response(name: string): Response {
    if (!SERVICES.includes(name)) {
      return { status: 'SERVICE_UNKNOWN' };
    }
    return { status: this.isServing ? 'SERVING' : 'NOT_SERVING' };
  }
}
