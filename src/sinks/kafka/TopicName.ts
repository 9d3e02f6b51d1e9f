/** Kafka takes these names of topics. */
export const isTopicName = (topic: string): boolean => /^[A-Za-z0-9._-]{1,249}$/.test(topic) && !/^\.\.?$/.test(topic)
