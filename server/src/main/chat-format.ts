/** Chat formats for the text models of this server. Part of the composition root. */
import type { ChatFormat, ChatFormatSource } from "../chat/chat-contract.ts";
import { PLAIN_CHAT } from "../text-model/plain-chat.ts";

/** @throws ServerError invalid_argument for an unknown format name */
export function createChatFormat(_source: ChatFormatSource): ChatFormat {
  return PLAIN_CHAT;
}
